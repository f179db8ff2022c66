package doctor

// noNetworks looks whether any network is configured.
func noNetworks() Check {
	return Check{
		Name: "networks", Looks: "whether a network is configured",
		Why:  "Without one a kubelet's node is NotReady, and nothing can be attached.",
		Mend: "cleat install writes a default network; or put a .conflist into the folder of configurations",
		Good: "there is a network",
		find: func(f *Facts) []Result {
			if len(f.Networks) > 0 {
				return nil
			}
			if f.Configs > 0 {
				return []Result{failed("none of the %d files in %s can be used", f.Configs, f.ConfDir).with("cleat lint says what is wrong with them")}
			}
			return []Result{failed("no network is configured in %s", f.ConfDir)}
		},
	}
}
