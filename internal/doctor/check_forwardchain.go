package doctor

import "strings"

// forwardChain looks whether iptables may drop what pods send.
func forwardChain() Check {
	return Check{
		Name: "forward-chain", Looks: "a chain FORWARD of iptables, where a network has no plugin firewall",
		Why:   "Docker, for one, lets FORWARD drop what it doesn't know. Pods then reach their bridge and nothing beyond.",
		Mend:  `add {"type": "firewall"} to the network's plugins, and attach its pods again`,
		Good:  "no chain FORWARD is in the way of pods",
		Needs: ofKernel,
		find: func(f *Facts) []Result {
			if names := f.without("firewall"); f.filters() && len(names) > 0 {
				return []Result{warning("iptables has a chain FORWARD, which may drop what pods of %s send", strings.Join(names, ", "))}
			}
			return nil
		},
	}
}
