package doctor

import "strings"

// neighbourTable looks whether the table of neighbours has room for all pods.
func neighbourTable() Check {
	return Check{
		Name: "neighbour-table", Looks: "gc_thresh3, how many neighbours the kernel keeps, and how many there are",
		Why: "Each pod is a neighbour of the host. Where the table overflows, addresses are not resolved any more, and pods " +
			"come and go from the net at random.",
		Mend:  "sysctl -w net.ipv4.neigh.default.gc_thresh3=N with N several times the pods, and gc_thresh1 and 2 below it",
		Good:  "the table of neighbours has room",
		Needs: ofState,
		find: func(f *Facts) []Result {
			most, ok := f.number("proc/sys/net/ipv4/neigh/default/gc_thresh3")
			if !ok {
				return nil
			}
			have := max(0, strings.Count(f.text("proc/net/arp"), "\n"))
			if n := max(have, len(f.living())); n*10 >= most*8 {
				return []Result{warning("there are %d neighbours or pods, and the kernel keeps %d", n, most)}
			}
			return nil
		},
	}
}
