package doctor

import "strings"

// firewalldRuns looks whether firewalld may drop what pods send.
func firewalldRuns() Check {
	return Check{
		Name: "firewalld", Looks: "a firewalld that runs, where a network has no plugin firewall",
		Why: "firewalld drops what comes from addresses that are in none of its zones, unless the default zone says " +
			"otherwise.",
		Mend:  `add {"type": "firewall"} to the network's plugins, and attach its pods again`,
		Good:  "no firewalld is in the way of pods",
		Needs: ofKernel,
		find: func(f *Facts) []Result {
			if names := f.without("firewall"); f.Kernel.Firewalld && len(names) > 0 {
				return []Result{warning("firewalld runs, and pods of %s are in none of its zones", strings.Join(names, ", "))}
			}
			return nil
		},
	}
}
