package doctor

// raForwarding looks whether the host loses its own IPv6 route.
func raForwarding() Check {
	return Check{
		Name: "ra-forwarding", Looks: "accept_ra of the interface of the default route, where the host forwards IPv6",
		Why: "A host that forwards does not listen to router advertisements, unless accept_ra is 2: when its default route " +
			"expires, minutes after the first pod, it is off the net.",
		Mend:  "sysctl -w net.ipv6.conf.IFACE.accept_ra=2, and the same in /etc/sysctl.d",
		Good:  "the host keeps its IPv6 route",
		Fixes: true,
		find: func(f *Facts) []Result {
			up, ok := f.uplink6()
			if !ok || !f.hasFamily(true) {
				return nil
			}
			name := "net/ipv6/conf/" + up + "/accept_ra"
			if f.sysctl(name) != "1" {
				return nil
			}
			return []Result{warning("%s listens to router advertisements (accept_ra is 1), and will not once the host forwards IPv6", up).
				with("sysctl -w net.ipv6.conf.%s.accept_ra=2, and the same in /etc/sysctl.d", up).by(Remedy{Sysctl: Sysctl{name, "2"}})}
		},
	}
}

// uplink6 is the interface of the first default route of IPv6.
func (f *Facts) uplink6() (string, bool) {
	for _, r := range f.Net.Routes {
		if r.Dst.Bits() == 0 && r.Dst.Addr().Is6() {
			return r.Dev, true
		}
	}
	return "", false
}
