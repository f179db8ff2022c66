package doctor

// defaultNetwork looks whether it is clear which network pods get.
func defaultNetwork() Check {
	return Check{
		Name: "default-network", Looks: "the file whose name sorts first",
		Why: "A kubelet's runtime attaches pods to its network. If that file is broken, some runtimes take the next, and " +
			"others none.",
		Mend: "mend the file, or remove it",
		Good: "it is clear which network pods get",
		find: func(f *Facts) []Result { return f.linted(Warning, "L502") },
	}
}
