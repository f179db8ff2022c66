package doctor

import "github.com/cleat-cni/cleat/netstate"

// uplink looks whether the host has a way out.
func uplink() Check {
	return Check{
		Name: "uplink", Looks: "the host's default route, where pods have one",
		Why:  "Pods go out by the host's route, and take their MTU from its interface.",
		Mend: "give the host a default route (ip route add default via …), or the pods none",
		Good: "the host has a way out, or pods need none",
		find: func(f *Facts) []Result {
			if _, ok := f.Net.Uplink(); ok {
				return nil
			}
			for _, s := range f.Steps {
				for _, r := range s.Plan.State.Routes {
					if r.Place == netstate.Pod && r.Dst.Bits() == 0 {
						return []Result{warning("the host has no default route, and pods of the network %s have one that leads to it", s.Network)}
					}
				}
			}
			return nil
		},
	}
}
