package lint

// Rule is one thing that is looked for.
type Rule struct {
	ID    string // L and a number: L0 text, L1 keys and values, L2 the network, L3 the list of plugins, L4 addresses, L5 files, L6 the machine
	Name  string
	Why   string // why it matters, in sentences
	Fixes bool   // some of what it finds [Fix] can mend
	check func(r *run)
}

// Rules are all rules, in the order in which they run: what a rule holds for an error is kept from the plugins, which judge after
// those that know a value's form.
func Rules() []Rule {
	return []Rule{
		syntax(), duplicateKey(), notNetwork(),
		unknownKey(), keyCase(), misplacedKey(), wrongType(), missingKey(), reservedKey(), deprecatedKey(), unusedIPAM(),
		networkName(), badVersion(), missingVersion(), versionAdvice(), stringBool(), noPlugins(), singlePlugin(), wrongEnding(), badType(),
		chainedFirst(), secondInterface(), ipamInList(), notIPAM(), twicePlugin(),
		unknownCapability(), capabilityValue(), wrongInterface(),
		refused(), undeclaredCapability(), bridgePorts(),
		overlap(), smallRange(), foreignGateway(), noDefaultRoute(), routeFamily(), sharedLink(), publicAddresses(),
		sameName(), defaultNetwork(), leftover(), openToAll(), unreadable(), oddEnding(), addedPlugins(),
		notInstalled(), tooOld(), refusedHere(), aboveUplink(), hostOverlap(),
	}
}

// RuleOf returns the rule that an ID or a name names.
func RuleOf(id string) (Rule, bool) {
	for _, r := range Rules() {
		if sameButCase(r.ID, id) || r.Name == id {
			return r, true
		}
	}
	return Rule{}, false
}
