package doctor

import "strings"

// iptablesMixture looks whether both kinds of iptables are in use.
func iptablesMixture() Check {
	return Check{
		Name: "iptables-mixture", Looks: "tables of the legacy iptables beside those of iptables-nft",
		Why: "The two don't see each other's rules, and every packet passes both: what one lets through the other drops, and " +
			"no listing of either shows why.",
		Mend:  "choose one (update-alternatives --config iptables), flush the other and restart what made its rules",
		Good:  "no more than one kind of iptables is in use",
		Needs: ofKernel,
		find: func(f *Facts) []Result {
			legacy := strings.Fields(f.text("proc/net/ip_tables_names"))
			if len(legacy) == 0 || len(f.Kernel.Forward) == 0 {
				return nil
			}
			return []Result{warning("the legacy iptables has the tables %s, and iptables-nft has chains too", strings.Join(legacy, ", "))}
		},
	}
}
