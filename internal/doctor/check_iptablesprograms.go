package doctor

// iptablesPrograms looks whether the programs are there that networks ask for.
func iptablesPrograms() Check {
	return Check{
		Name: "iptables-programs", Looks: "iptables-restore and ip6tables-restore, where a network names iptables as its backend",
		Why:  "Without the programs an ADD of the network fails.",
		Mend: "install iptables, or remove the backend from the configuration: nftables needs no program",
		Good: "no network asks for programs that are not there",
		find: func(f *Facts) []Result {
			var all []Result
			for _, n := range f.Networks {
				for _, p := range n.Plugins {
					for _, key := range []string{"backend", "ipMasqBackend"} {
						var backend string
						if _, err := p.Network.Raw.Decode(key, &backend); err != nil || backend != "iptables" {
							continue
						}
						for _, program := range []string{"iptables-restore", "ip6tables-restore"} {
							if !f.program(program) {
								all = append(all, failed("%s of the network %s asks for iptables, and %s is not there", p.Network.Type, n.Name, program))
							}
						}
					}
				}
			}
			return all
		},
	}
}
