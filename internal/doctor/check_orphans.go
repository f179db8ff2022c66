package doctor

import "github.com/cleat-cni/cleat/libcni"

// orphans looks for attachments without a namespace.
func orphans() Check {
	return Check{
		Name: "orphans", Looks: "recorded attachments whose namespace is gone",
		Why: "Their addresses and rules stay taken until somebody frees them: pods that went without a DEL, mostly by a " +
			"reboot.",
		Mend:  "cleat gc frees them",
		Good:  "every attachment has its namespace",
		Fixes: true, Needs: ofState,
		find: func(f *Facts) []Result {
			var names []string
			for _, a := range f.Attachments {
				if a.State == libcni.StateOrphan {
					names = append(names, a.Network+"/"+a.ContainerID+"/"+a.IfName)
				}
			}
			return some(names, "namespace gone", Remedy{Collect: true})
		},
	}
}
