package doctor

// conntrackTable looks how full the table of connections is.
func conntrackTable() Check {
	return Check{
		Name: "conntrack-table", Looks: "nf_conntrack_count and nf_conntrack_max",
		Why: "When the table is full, new connections are dropped, of pods and of the host, and the kernel's log is the only " +
			"one to say so.",
		Mend: "sysctl -w net.netfilter.nf_conntrack_max=N, and the same in /etc/sysctl.d; look with conntrack -S who has so " +
			"many",
		Good: "the table of connections has room",
		find: func(f *Facts) []Result {
			count, ok := f.number("proc/sys/net/netfilter/nf_conntrack_count")
			most, ok2 := f.number("proc/sys/net/netfilter/nf_conntrack_max")
			if !ok || !ok2 || most == 0 {
				return nil
			}
			switch percent := count * 100 / most; {
			case percent >= 90:
				return []Result{failed("the table of connections has %d of %d entries", count, most)}
			case percent >= 70:
				return []Result{warning("the table of connections has %d of %d entries", count, most)}
			}
			return nil
		},
	}
}
