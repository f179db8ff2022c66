package doctor

import "github.com/cleat-cni/cleat/libcni"

// unfinished looks for ADDs that were interrupted.
func unfinished() Check {
	return Check{
		Name: "unfinished-adds", Looks: "ADDs that were neither finished nor undone",
		Why:   "A runtime that was killed in the middle left an interface, an address and rules that belong to no pod.",
		Mend:  "cleat gc frees what they left",
		Good:  "no ADD was left in the middle",
		Fixes: true, Needs: ofState,
		find: func(f *Facts) []Result {
			var all []Result
			for _, a := range f.Attachments {
				if a.State == libcni.StateBroken && a.ContainerID != "" {
					all = append(all, warning("the ADD of %s/%s/%s: %v", a.Network, a.ContainerID, a.IfName, a.Err).by(Remedy{Collect: true}))
				}
			}
			return all
		},
	}
}
