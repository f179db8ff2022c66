package doctor

// ipv6Off looks whether there is IPv6 for networks that give such addresses.
func ipv6Off() Check {
	return Check{
		Name: "ipv6-off", Looks: "whether IPv6 is on, where a network gives such addresses",
		Why:  "With ipv6.disable=1, or disable_ipv6 for all interfaces, an ADD with an IPv6 address fails.",
		Mend: "boot without ipv6.disable=1 and set net.ipv6.conf.all.disable_ipv6=0, or leave IPv6 out of the ranges",
		Good: "IPv6 is on, or no network gives such addresses",
		find: func(f *Facts) []Result {
			switch {
			case !f.hasFamily(true):
				return nil
			case !f.has("proc/sys/net/ipv6"):
				return []Result{failed("this kernel has no IPv6, and a network gives such addresses")}
			case f.sysctl("net/ipv6/conf/all/disable_ipv6") == "1":
				return []Result{failed("IPv6 is off for all interfaces, and a network gives such addresses")}
			}
			return nil
		},
	}
}
