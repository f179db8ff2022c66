package doctor

// hostOverlap looks whether the host reaches pods' addresses elsewhere.
func hostOverlap() Check {
	return Check{
		Name: "host-overlap", Looks: "routes of the host that overlap the networks of pods, and networks that overlap each other",
		Why: "Packets for pods leave by the other route, or pods hide what is there: a VPN, a cluster's network, the network " +
			"of the machine itself.",
		Mend: "give the network a range that the host has no other route to",
		Good: "networks of pods overlap nothing",
		find: func(f *Facts) []Result { return f.linted(Warning, "L401", "L605") },
	}
}
