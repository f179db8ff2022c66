package doctor

// ipForward looks whether the host forwards IPv4.
func ipForward() Check {
	return Check{
		Name: "ip-forward", Looks: "net.ipv4.ip_forward, where pods are attached that the host forwards for",
		Why: "An ADD sets it, but a tool that applies sysctl.conf afterwards may set it back: pods then reach their own " +
			"bridge and nothing else.",
		Mend:  "sysctl -w net.ipv4.ip_forward=1, and the same in /etc/sysctl.d",
		Good:  "the host forwards IPv4 where it has to",
		Fixes: true,
		Needs: ofState,
		find:  func(f *Facts) []Result { return f.forwarding("net/ipv4/ip_forward", "IPv4") },
	}
}

// forwarding looks at a switch of forwarding.
func (f *Facts) forwarding(name, family string) []Result {
	if f.sysctl(name) != "0" {
		return nil
	}
	for _, a := range f.living() {
		for _, s := range f.Steps {
			if s.Network == a.Network && s.forwards(name) {
				return []Result{failed("the host does not forward %s, and pods of the network %s are attached", family, a.Network).
					by(Remedy{Sysctl: Sysctl{name, "1"}})}
			}
		}
	}
	return nil
}
