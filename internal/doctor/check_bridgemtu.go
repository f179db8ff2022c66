package doctor

// bridgeMTU looks whether packets of pods are too large for the way out.
func bridgeMTU() Check {
	return Check{
		Name: "bridge-mtu", Looks: "the MTU of bridges, beside that of the interface of the default route",
		Why:  "Packets that are larger than the way out are cut into pieces or dropped: connections open, and then hang.",
		Mend: "set the network's mtu, lower that of the bridge, and attach its pods again",
		Good: "no bridge has a larger MTU than the way out",
		find: func(f *Facts) []Result {
			up, ok := f.Net.Uplink()
			if !ok {
				return nil
			}
			var all []Result
			for _, name := range f.bridges() {
				if l, there := f.Net.Link(name); there && l.MTU > up.MTU {
					all = append(all, warning("the bridge %s has an MTU of %d, and %s, the way out, of %d", name, l.MTU, up.Name, up.MTU).
						with(`write "mtu": %d into the network, ip link set %s mtu %d, and attach its pods again`, up.MTU, name, up.MTU))
				}
			}
			return all
		},
	}
}
