package netstate

import "strings"

// IptablesChain is a chain of our own in a table of iptables.
type IptablesChain struct {
	Family string `json:"family,omitzero"` // ip, ip6
	Table  string `json:"table,omitzero"`  // nat, raw, mangle, filter
	Name   string `json:"name,omitzero"`   // at most 28 bytes
	// Owner: the chain stands for what only one attachment can have at a time, such as a port of the host, and
	// goes with it. Its rules, at least one, have the same owner. Zero is shared: it is made if it is missing and stays.
	Owner Owner `json:"owner,omitzero"`
	// Foreign: the chain is somebody else's. It must be there, and nothing is ever put into it.
	Foreign bool `json:"foreign,omitzero"`
}

// IptablesRule is a rule of iptables, in a chain of our own or in one that every table has.
type IptablesRule struct {
	Family string `json:"family,omitzero"`
	Table  string `json:"table,omitzero"`
	Chain  string `json:"chain,omitzero"`
	// Rule is matches and target as iptables-restore reads them, without a comment: that is added
	// when the rule is made, and is what it is known by.
	Rule  string `json:"rule,omitzero"`
	First bool   `json:"first,omitzero"` // goes to the head of the chain, else to its end
	Owner Owner  `json:"owner,omitzero"` // zero is shared: made if it is missing, and stays
	Lives string `json:"lives,omitzero"` // as Element.Lives
}

// IptablesPlaces are the tables of that name, one a family, that may hold rules of an attachment, for a removal that knows no more of them. Where
// the chain is not there, none are there; "" is any chain.
func IptablesPlaces(table, chain string) []IptablesChain {
	return []IptablesChain{{Family: "ip", Table: table, Name: chain}, {Family: "ip6", Table: table, Name: chain}}
}

// Key is `host iptables ip nat chain CLEAT-MASQ`.
func (o IptablesChain) Key() string {
	l := newLine(Host, "iptables", o.Family, o.Table)
	word(l, "chain", o.Name)
	return l.String()
}

// String is the canonical line.
func (o IptablesChain) String() string {
	s := o.Key()
	if o.Foreign {
		s += " foreign"
	}
	if !o.Owner.IsZero() {
		s += " owner " + o.Owner.Mark()
	}
	return s
}

// Key is the rule with its chain and its owner.
func (o IptablesRule) Key() string { return o.String() }

// String is the canonical line.
func (o IptablesRule) String() string {
	s := newLine(Host, "iptables", o.Family, o.Table, "chain", o.Chain, "rule", o.Rule).String()
	if o.First {
		s += " first"
	}
	if !o.Owner.IsZero() {
		s += " owner " + o.Owner.Mark()
	}
	return s
}

// LeadsTo reports whether a rule's target is the chain.
func (o IptablesRule) LeadsTo(c IptablesChain) bool {
	before, target, ok := strings.Cut(o.Rule+" ", " -j ")
	if !ok {
		target, ok = strings.CutPrefix(before, "-j ")
	}
	return ok && o.Family == c.Family && o.Table == c.Table && strings.TrimSpace(target) == c.Name
}

// IptablesWord writes one word so that iptables-restore reads it as one, whatever stands in it. A word
// of letters, digits and a few signs is left as it is.
func IptablesWord(word string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("!-_.,:/=+[]%@", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}
