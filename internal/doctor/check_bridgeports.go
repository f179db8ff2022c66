package doctor

// mostPorts is how many ports the kernel lets a bridge have.
const mostPorts = 1023

// bridgePorts looks how many ports bridges have left.
func bridgePorts() Check {
	return Check{
		Name: "bridge-ports", Looks: "how many of the 1,023 ports of a bridge are taken",
		Why:  "Each pod takes a port. When there is none left, the next pod fails, though there are addresses.",
		Mend: "cleat gc frees the ports that no pod has; give new pods a network with another bridge",
		Good: "all bridges have ports left",
		find: func(f *Facts) []Result {
			var all []Result
			for _, name := range f.bridges() {
				l, _ := f.Net.Link(name)
				switch {
				case l.Ports >= mostPorts:
					all = append(all, failed("the bridge %s has all of its %d ports taken", name, mostPorts))
				case l.Ports*10 >= mostPorts*9:
					all = append(all, warning("the bridge %s has %d of %d ports taken", name, l.Ports, mostPorts))
				}
			}
			return all
		},
	}
}
