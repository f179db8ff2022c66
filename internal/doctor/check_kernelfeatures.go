package doctor

// kernelFeatures looks what the kernel can do.
func kernelFeatures() Check {
	return Check{
		Name: "kernel-features", Looks: "veth, bridges, VLANs of bridges, shaping and NAT, each made in namespaces that are thrown away",
		Why:   "A kernel that was built without one of them, or whose module is not loaded, fails the pods that need it.",
		Mend:  "load the module, or install a kernel that has it",
		Good:  "the kernel can do all that plugins ask for",
		Needs: ofFeatures,
		find: func(f *Facts) []Result {
			var all []Result
			for _, feature := range f.Features {
				switch {
				case feature.Err == nil:
				case feature.Used:
					all = append(all, failed("%s: %v", feature.Name, feature.Err))
				default:
					all = append(all, warning("%s, which no network uses: %v", feature.Name, feature.Err))
				}
			}
			return all
		},
	}
}
