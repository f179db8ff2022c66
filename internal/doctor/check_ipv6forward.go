package doctor

// ipv6Forward looks whether the host forwards IPv6.
func ipv6Forward() Check {
	return Check{
		Name: "ipv6-forward", Looks: "net.ipv6.conf.all.forwarding, where pods are attached that the host forwards for",
		Why:   "As with IPv4: an ADD sets it, and something else may set it back.",
		Mend:  "sysctl -w net.ipv6.conf.all.forwarding=1, and the same in /etc/sysctl.d",
		Good:  "the host forwards IPv6 where it has to",
		Fixes: true,
		Needs: ofState,
		find:  func(f *Facts) []Result { return f.forwarding("net/ipv6/conf/all/forwarding", "IPv6") },
	}
}
