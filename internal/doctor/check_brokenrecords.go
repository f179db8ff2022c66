package doctor

import "github.com/cleat-cni/cleat/libcni"

// brokenRecords looks for records that can't be read.
func brokenRecords() Check {
	return Check{
		Name: "broken-records", Looks: "records of attachments that can't be read",
		Why:   "Of such an attachment nobody knows what it has; a DEL goes on without, and may leave rules behind.",
		Mend:  "cleat del NETWORK NETNS of the pod, or remove the file if the pod is gone",
		Good:  "all records can be read",
		Needs: ofState,
		find: func(f *Facts) []Result {
			var all []Result
			for _, a := range f.Attachments {
				if a.State == libcni.StateBroken && a.ContainerID == "" {
					all = append(all, warning("%s: %v", a.File, a.Err))
				}
			}
			return all
		},
	}
}
