package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// seenTable is what the kernel holds of a table.
type seenTable struct {
	exists  bool
	dormant bool // the kernel passes its chains over (flags dormant)
	sets    []seenSet
	chains  []netstate.Chain // without rules
	rules   []seenRule       // of all chains, in their order
}

// seenSet is a set or map.
type seenSet struct {
	setID
	flags     uint32
	key, data uint32 // numbers of the types
}

// seenRule is a rule. comment is what tells it from others.
type seenRule struct {
	chain   string
	handle  uint64
	comment string
}

// dump asks for all objects of a kind, and hands their attributes to got. A table or set
// that is not there has none.
func (c *filterConn) dump(ctx context.Context, m filterMessage, got func(attrs []byte) error) error {
	m.flags = netlink.Dump
	results, err := c.ask(ctx, []filterMessage{m}, func(_ int, attrs []byte) error { return got(attrs) })
	if err != nil {
		return err
	}
	if errors.Is(results[0], unix.ENOENT) {
		return nil
	}
	return results[0]
}

// generationMessage asks for the ruleset's generation, which every transaction changes.
func generationMessage() filterMessage {
	return filterMessage{
		kind: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, family: unix.AF_UNSPEC, what: "read ruleset generation",
	}
}

func parseGeneration(attrs []byte) (uint32, error) {
	ad, err := newAttrsOf(attrs)
	if err != nil {
		return 0, err
	}
	var generation uint32
	for ad.Next() {
		if ad.Type() == unix.NFTA_GEN_ID {
			generation = ad.Uint32()
		}
	}
	return generation, ad.Err()
}

// elementKey names an element.
type elementKey struct {
	set setID
	key []byte
}

// maxGets is how many elements one datagram asks for. Their replies must fit into the
// socket's buffer together.
const maxGets = 64

// elements reads elements and, before them, the ruleset's generation. What is not there is nil.
func (c *filterConn) elements(ctx context.Context, keys []elementKey) ([]*nftElement, uint32, error) {
	var generation uint32
	seen := make([]*nftElement, len(keys))
	for from := 0; ; from += maxGets {
		part := keys[min(from, len(keys)):min(from+maxGets, len(keys))]
		if len(part) == 0 && from > 0 {
			return seen, generation, nil
		}
		var msgs []filterMessage
		if from == 0 {
			msgs = append(msgs, generationMessage())
		}
		skip := len(msgs)
		for _, k := range part {
			m, err := elementsMessage(unix.NFT_MSG_GETSETELEM, k.set, "read element of "+k.set.name, nftElement{key: k.key})
			if err != nil {
				return nil, 0, err
			}
			msgs = append(msgs, m)
		}
		results, err := c.ask(ctx, msgs, func(i int, attrs []byte) error {
			if i < skip {
				var err error
				generation, err = parseGeneration(attrs)
				return err
			}
			return parseElements(attrs, func(e nftElement) { seen[from+i-skip] = &e })
		})
		if err != nil {
			return nil, 0, err
		}
		for i, err := range results {
			// A set of somebody else's, whose keys have another length, has no such element and says EINVAL.
			foreign := i >= skip && errors.Is(err, unix.EINVAL)
			if err != nil && !foreign && !errors.Is(err, unix.ENOENT) {
				return nil, 0, err
			}
		}
	}
}

// owned returns the elements of asked that are there and carry their owner's mark.
func (r *ruleset) owned(ctx context.Context, asked []wantedElement) ([]netstate.Element, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]elementKey, len(asked))
	for i, w := range asked {
		keys[i] = w.elementKey()
	}
	seen, _, err := r.conn.elements(ctx, keys)
	if err != nil {
		return nil, err
	}
	var found []netstate.Element
	for i, have := range seen {
		if have != nil && markOf(*have) == asked[i].Owner.Mark() {
			found = append(found, asked[i].Element)
		}
	}
	return found, nil
}

// parseElements reads a list of elements. What it hands out is its own.
func parseElements(attrs []byte, got func(nftElement)) error {
	ad, err := newAttrsOf(attrs)
	if err != nil {
		return err
	}
	for ad.Next() {
		if ad.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			continue
		}
		ad.Nested(func(ad *netlink.AttributeDecoder) error {
			for ad.Next() {
				ad.Nested(func(ad *netlink.AttributeDecoder) error {
					got(parseElement(ad))
					return nil
				})
			}
			return nil
		})
	}
	return ad.Err()
}

func parseElement(ad *netlink.AttributeDecoder) nftElement {
	var e nftElement
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			e.key = parseValue(ad)
		case unix.NFTA_SET_ELEM_DATA:
			e.data = parseValue(ad)
		case unix.NFTA_SET_ELEM_USERDATA:
			e.user = bytes.Clone(ad.Bytes())
		}
	}
	return e
}

func parseValue(ad *netlink.AttributeDecoder) []byte {
	var v []byte
	ad.Nested(func(ad *netlink.AttributeDecoder) error {
		for ad.Next() {
			if ad.Type() == unix.NFTA_DATA_VALUE {
				v = bytes.Clone(ad.Bytes())
			}
		}
		return nil
	})
	return v
}

// dumpAttempts is how often a set is read that changes while it is read.
const dumpAttempts = 8

// allElements reads all elements of a set. Where others change the ruleset all the time, what is handed over is
// what some attempts saw together: all that was there throughout, and perhaps more.
func (c *filterConn) allElements(ctx context.Context, set setID) ([]nftElement, error) {
	m, err := elementsMessage(unix.NFT_MSG_GETSETELEM, set, "read set "+set.name)
	if err != nil {
		return nil, err
	}
	var all []nftElement
	have := map[string]bool{}
	for range dumpAttempts {
		err = c.dump(ctx, m, func(attrs []byte) error {
			return parseElements(attrs, func(e nftElement) {
				if !have[string(e.key)] {
					have[string(e.key)] = true
					all = append(all, e)
				}
			})
		})
		if !errors.Is(err, errRace) {
			return all, err
		}
	}
	return all, nil
}

// sets reads the sets of a table.
func (c *filterConn) sets(ctx context.Context, family uint8, table string) ([]seenSet, error) {
	m, err := nftMessage(unix.NFT_MSG_GETSET, family, "read sets of table "+table,
		func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.NFTA_SET_TABLE, table)
			return nil
		})
	if err != nil {
		return nil, err
	}
	var sets []seenSet
	err = c.dump(ctx, m, func(attrs []byte) error {
		ad, err := newAttrsOf(attrs)
		if err != nil {
			return err
		}
		s := seenSet{setID: setID{family: family, table: table}}
		for ad.Next() {
			switch ad.Type() {
			case unix.NFTA_SET_NAME:
				s.name = ad.String()
			case unix.NFTA_SET_FLAGS:
				s.flags = ad.Uint32()
			case unix.NFTA_SET_KEY_TYPE:
				s.key = ad.Uint32()
			case unix.NFTA_SET_DATA_TYPE:
				s.data = ad.Uint32()
			}
		}
		if s.flags&unix.NFT_SET_ANONYMOUS == 0 {
			sets = append(sets, s)
		}
		return ad.Err()
	})
	return sets, err
}

// chains reads the chains of a table.
func (c *filterConn) chains(ctx context.Context, family uint8, table string) ([]netstate.Chain, error) {
	m, err := nftMessage(unix.NFT_MSG_GETCHAIN, family, "read chains of table "+table,
		func(ae *netlink.AttributeEncoder) error {
			// Kernels before 6.4 don't look at it and list the chains of all tables.
			ae.String(unix.NFTA_CHAIN_TABLE, table)
			return nil
		})
	if err != nil {
		return nil, err
	}
	var chains []netstate.Chain
	err = c.dump(ctx, m, func(attrs []byte) error {
		of, chain, err := parseChain(attrs)
		if of == table {
			chains = append(chains, chain)
		}
		return err
	})
	return chains, err
}

func parseChain(attrs []byte) (table string, chain netstate.Chain, err error) {
	ad, err := newAttrsOf(attrs)
	if err != nil {
		return "", chain, err
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_CHAIN_TABLE:
			table = ad.String()
		case unix.NFTA_CHAIN_NAME:
			chain.Name = ad.String()
		case unix.NFTA_CHAIN_TYPE:
			chain.Type = ad.String()
		case unix.NFTA_CHAIN_HOOK:
			ad.Nested(func(ad *netlink.AttributeDecoder) error {
				for ad.Next() {
					switch ad.Type() {
					case unix.NFTA_HOOK_HOOKNUM:
						if n := ad.Uint32(); n < uint32(len(hooks)) {
							chain.Hook = hooks[n]
						}
					case unix.NFTA_HOOK_PRIORITY:
						chain.Priority = int(ad.Int32())
					}
				}
				return nil
			})
		}
	}
	return table, chain, ad.Err()
}

// rulesMessage asks for the rules of a table, chain by chain.
func rulesMessage(family uint8, table string) (filterMessage, error) {
	m, err := nftMessage(unix.NFT_MSG_GETRULE, family, "read rules of table "+table,
		func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.NFTA_RULE_TABLE, table)
			return nil
		})
	m.flags = netlink.Dump
	return m, err
}

func parseSeenRule(attrs []byte) (seenRule, error) {
	ad, err := newAttrsOf(attrs)
	if err != nil {
		return seenRule{}, err
	}
	var r seenRule
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_RULE_CHAIN:
			r.chain = ad.String()
		case unix.NFTA_RULE_HANDLE:
			r.handle = ad.Uint64()
		case unix.NFTA_RULE_USERDATA:
			r.comment = parseUserdata(ad.Bytes(), userdataComment)
		}
	}
	return r, ad.Err()
}

// tableMessage asks for a table.
func tableMessage(t netstate.Table, family uint8) (filterMessage, error) {
	return nftMessage(unix.NFT_MSG_GETTABLE, family, fmt.Sprintf("read table %s %s", t.Family, t.Name),
		func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.NFTA_TABLE_NAME, t.Name)
			return nil
		})
}

// tableDormant is NFT_TABLE_F_DORMANT.
const tableDormant = 1

func parseDormant(attrs []byte) (bool, error) {
	ad, err := newAttrsOf(attrs)
	if err != nil {
		return false, err
	}
	dormant := false
	for ad.Next() {
		if ad.Type() == unix.NFTA_TABLE_FLAGS {
			dormant = ad.Uint32()&tableDormant != 0
		}
	}
	return dormant, ad.Err()
}

// tableRules reads a table and its rules, and neither its sets nor its chains. A ruleset that changes while
// it is read gives errRace.
func (c *filterConn) tableRules(ctx context.Context, t netstate.Table, family uint8) (seenTable, error) {
	table, err := tableMessage(t, family)
	if err != nil {
		return seenTable{}, err
	}
	rules, err := rulesMessage(family, t.Name)
	if err != nil {
		return seenTable{}, err
	}
	seen := seenTable{exists: true}
	results, err := c.ask(ctx, []filterMessage{table, rules}, func(i int, attrs []byte) error {
		var err error
		if i == 0 {
			seen.dormant, err = parseDormant(attrs)
			return err
		}
		r, err := parseSeenRule(attrs)
		seen.rules = append(seen.rules, r)
		return err
	})
	if err != nil {
		return seenTable{}, err
	}
	if errors.Is(results[0], unix.ENOENT) {
		return seenTable{}, nil
	}
	return seen, errors.Join(results...)
}

// table reads all of a table but its elements. A ruleset that changes while it is read
// gives errRace.
func (c *filterConn) table(ctx context.Context, t netstate.Table) (seenTable, error) {
	family, err := familyNumber(t.Family)
	if err != nil {
		return seenTable{}, err
	}
	seen, err := c.tableRules(ctx, t, family)
	if err != nil || !seen.exists {
		return seenTable{}, err
	}
	if seen.sets, err = c.sets(ctx, family, t.Name); err != nil {
		return seenTable{}, err
	}
	seen.chains, err = c.chains(ctx, family, t.Name)
	return seen, err
}
