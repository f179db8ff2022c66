package doctor

// leftovers looks for what is in the kernel and belongs to nobody.
func leftovers() Check {
	return Check{
		Name: "leftovers", Looks: "interfaces and rules that carry a network's mark and belong to no attachment that is recorded",
		Why:   "A rule of a pod that is gone sends packets to whoever has its address next.",
		Mend:  "cleat gc frees them; cleat gc --dry-run lists them",
		Good:  "nothing of a network is left that belongs to nobody",
		Fixes: true,
		Needs: ofLeft,
		find: func(f *Facts) []Result {
			return f.left(func(kind string) bool { return kind != "lease" }, "belongs to nobody")
		},
	}
}
