package kerneltest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

func checkTable(t netstate.Table) error {
	var errs []error
	if t.Name == "" {
		errs = append(errs, errors.New("no name"))
	}
	errs = append(errs, checkFamily(t.Family))
	for _, s := range t.Sets {
		if s.Name == "" || len(s.Key) == 0 {
			errs = append(errs, fmt.Errorf("set %q: no name or no type", s.Name))
		}
		for _, typ := range slices.Concat(s.Key, s.Data) {
			if _, ok := nftValue(typ, ""); !ok {
				errs = append(errs, fmt.Errorf("set %s: unknown type %q", s.Name, typ))
			}
		}
	}
	for _, c := range t.Chains {
		errs = append(errs, checkChain(t, c))
	}
	return errors.Join(errs...)
}

func checkFamily(family string) error {
	if family != "inet" && family != "bridge" {
		return fmt.Errorf("unknown family %q", family)
	}
	return nil
}

func checkChain(t netstate.Table, c netstate.Chain) error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("chain without a name"))
	}
	hooks := []string{""}
	switch {
	case c.Type == "filter":
		hooks = []string{"prerouting", "input", "forward", "output", "postrouting"}
	case c.Type == "nat" && t.Family == "inet":
		hooks = []string{"prerouting", "input", "output", "postrouting"}
	case c.Type != "":
		errs = append(errs, fmt.Errorf("chain %s: unknown type %q", c.Name, c.Type))
	}
	if !slices.Contains(hooks, c.Hook) {
		errs = append(errs, fmt.Errorf("chain %s: a chain of type %q has no hook %q", c.Name, c.Type, c.Hook))
	}
	for _, rule := range c.Rules {
		if strings.TrimSpace(rule) == "" {
			errs = append(errs, fmt.Errorf("chain %s: empty rule", c.Name))
		}
	}
	return errors.Join(errs...)
}

// checkElement wants the set of an element declared, and its values of the set's types.
func checkElement(tables []netstate.Table, e netstate.Element) error {
	errs := []error{checkFamily(e.Family)}
	if set, err := setOf(tables, e); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, checkValues(e.Match, set.Key), checkValues(e.Data, set.Data))
	}
	if kind, name, _ := strings.Cut(e.Lives, " "); e.Lives != "" && (name == "" || (kind != "link" && kind != "netns")) {
		errs = append(errs, fmt.Errorf("unknown proof of life %q", e.Lives))
	}
	return errors.Join(errs...)
}

// nftValue reports whether a text is a value of an nft type, and whether the type is known.
func nftValue(typ, text string) (valid, known bool) {
	number := func(bits int) bool { _, err := strconv.ParseUint(text, 0, bits); return err == nil }
	switch typ {
	case "ipv4_addr":
		a, err := netip.ParseAddr(text)
		return err == nil && a.Is4(), true
	case "ipv6_addr":
		a, err := netip.ParseAddr(text)
		return err == nil && a.Is6() && a.Zone() == "", true
	case "inet_proto":
		return slices.Contains([]string{"tcp", "udp", "sctp"}, text) || number(8), true
	case "inet_service":
		return number(16), true
	case "ifname":
		return netstate.CheckName(text) == nil, true
	case "ether_addr":
		hw, err := net.ParseMAC(text)
		return err == nil && len(hw) == 6, true
	case "mark":
		return number(32), true
	}
	return false, false
}

// makeTable makes a table or completes the one that is there: what is there stays, in its order. A
// set or chain in another form is netstate.ErrExist.
func (x *transaction) makeTable(t netstate.Table) error {
	host := x.w[hostID]
	i := slices.IndexFunc(host.tables, func(o netstate.Table) bool { return o.Family == t.Family && o.Name == t.Name })
	if i < 0 {
		i = len(host.tables)
		host.tables = append(host.tables, netstate.Table{Family: t.Family, Name: t.Name})
	}
	have := host.tables[i]
	have.Sets, have.Chains = slices.Clone(have.Sets), slices.Clone(have.Chains)
	for _, s := range t.Sets {
		j := slices.IndexFunc(have.Sets, func(o netstate.Set) bool { return o.Name == s.Name })
		switch {
		case j < 0:
			have.Sets = append(have.Sets, s)
		case !slices.Equal(have.Sets[j].Key, s.Key) || !slices.Equal(have.Sets[j].Data, s.Data):
			return &netstate.ObjectError{Object: netstate.TableSet{Family: t.Family, Table: t.Name, Set: s}.Key(), Err: netstate.ErrOtherForm}
		}
	}
	for _, c := range t.Chains {
		if err := checkSetRefs(have, c); err != nil {
			return err
		}
		j := slices.IndexFunc(have.Chains, func(o netstate.Chain) bool { return o.Name == c.Name })
		switch {
		case j < 0:
			have.Chains = append(have.Chains, c)
		case have.Chains[j].Type != c.Type || have.Chains[j].Hook != c.Hook || have.Chains[j].Priority != c.Priority:
			return &netstate.ObjectError{Object: netstate.TableChain{Family: t.Family, Table: t.Name, Chain: c}.Key(), Err: netstate.ErrOtherForm}
		default:
			have.Chains[j].Rules = merge(have.Chains[j].Rules, c.Rules)
		}
	}
	host.tables[i] = have
	return nil
}

// merge adds the missing rules to a chain, each behind the one that it follows in want, or before the
// first of want that is there.
func merge(have, want []string) []string {
	all := slices.Clone(have)
	at := -1 // where the next missing rule goes; -1 is not known yet
	for i, rule := range want {
		if j := slices.Index(all, rule); j >= 0 {
			at = j + 1
			continue
		}
		if at < 0 {
			at = len(all)
			for _, next := range want[i:] {
				if j := slices.Index(all, next); j >= 0 {
					at = j
					break
				}
			}
		}
		all = slices.Insert(all, at, rule)
		at++
	}
	return all
}

// checkSetRefs refuses a rule that looks into a set which the table lacks.
func checkSetRefs(t netstate.Table, c netstate.Chain) error {
	for _, rule := range c.Rules {
		for word := range strings.FieldsSeq(rule) {
			name, ok := strings.CutPrefix(word, "@")
			if ok && !slices.ContainsFunc(t.Sets, func(s netstate.Set) bool { return s.Name == name }) {
				return fmt.Errorf("chain %s: set %s: %w", c.Name, name, netstate.ErrNotExist)
			}
		}
	}
	return nil
}

// makeElement adds an element to a set that the state declares. The owner's own element
// of that key it replaces.
func (x *transaction) makeElement(want netstate.State, e netstate.Element) error {
	host := x.w[hostID]
	if e.Owner.IsZero() {
		e.Owner = want.Owner
	}
	i := slices.IndexFunc(host.elements, func(o netstate.Element) bool { return sameElement(o, e) })
	switch {
	case i < 0:
		host.elements = append(host.elements, e)
	case host.elements[i].Owner.Beside(e.Owner) && x.lives(host.elements[i]):
	case host.elements[i].Owner != e.Owner && x.lives(host.elements[i]):
		return fmt.Errorf("%w: %s", netstate.ErrInUse, host.elements[i].Owner)
	default:
		host.elements[i] = e
	}
	return nil
}

func setOf(tables []netstate.Table, e netstate.Element) (netstate.Set, error) {
	for _, t := range tables {
		if t.Family != e.Family || t.Name != e.Table {
			continue
		}
		if s, ok := first(t.Sets, func(s netstate.Set) bool { return s.Name == e.Set }); ok {
			return s, nil
		}
	}
	return netstate.Set{}, errors.New("the set is not declared")
}

func sameElement(a, b netstate.Element) bool {
	return a.Family == b.Family && a.Table == b.Table && a.Set == b.Set && slices.Equal(a.Match, b.Match)
}

func checkValues(values, types []string) error {
	if len(values) != len(types) {
		return fmt.Errorf("%d values for %d types", len(values), len(types))
	}
	for i, typ := range types {
		if valid, _ := nftValue(typ, values[i]); !valid {
			return fmt.Errorf("%q is no %s", values[i], typ)
		}
	}
	return nil
}

// lives reports whether the owner of an element is alive. Without a proof it is taken to be.
func (x *transaction) lives(e netstate.Element) bool {
	kind, name, _ := strings.Cut(e.Lives, " ")
	switch kind {
	case "link":
		_, ok := x.w[hostID].links[name]
		return ok
	case "netns":
		_, ok := x.paths[name]
		return ok
	}
	return true
}
