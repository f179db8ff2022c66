package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// literalName is what the kernel makes a name of for a set that a rule writes out.
const literalName = "__set%d"

// setID names a set or map.
type setID struct {
	family      uint8
	table, name string
	// id is what a set that is made has in its transaction; 0 for one that is there.
	id uint32
}

// setIDOf returns the set that e is an element of.
func setIDOf(e netstate.Element) (setID, error) {
	family, err := familyNumber(e.Family)
	return setID{family: family, table: e.Table, name: e.Set}, err
}

func familyNumber(name string) (uint8, error) {
	switch name {
	case "inet":
		return unix.NFPROTO_INET, nil
	case "bridge":
		return unix.NFPROTO_BRIDGE, nil
	}
	return 0, fmt.Errorf("unknown family %q of an nft table", name)
}

func familyName(number uint8) string {
	if number == unix.NFPROTO_BRIDGE {
		return "bridge"
	}
	return "inet"
}

// nftMessage makes a message of the nft subsystem, with the attributes that fill adds.
func nftMessage(kind int, family uint8, what string, fill func(*netlink.AttributeEncoder) error) (filterMessage, error) {
	ae := newAttrs()
	if err := fill(ae); err != nil {
		return filterMessage{}, fmt.Errorf("%s: %w", what, err)
	}
	attrs, err := ae.Encode()
	if err != nil {
		return filterMessage{}, fmt.Errorf("%s: %w", what, err)
	}
	return filterMessage{
		kind: uint16(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), family: family, attrs: attrs, what: what,
	}, nil
}

// createFlags make an object, and refuse one that is there.
const createFlags = netlink.Create | netlink.Excl

func newTableMessage(t netstate.Table, family uint8) (filterMessage, error) {
	m, err := nftMessage(unix.NFT_MSG_NEWTABLE, family, "add table "+t.Family+" "+t.Name,
		func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.NFTA_TABLE_NAME, t.Name)
			ae.Uint32(unix.NFTA_TABLE_FLAGS, 0)
			return nil
		})
	m.flags = createFlags
	return m, err
}

// newSet is what a set is made of. Its id is unique within its transaction.
type newSet struct {
	setID
	key, data valueTypeList
	literal   bool
}

func newSetMessage(s newSet) (filterMessage, error) {
	m, err := nftMessage(unix.NFT_MSG_NEWSET, s.family, "add set "+s.name, func(ae *netlink.AttributeEncoder) error {
		ae.String(unix.NFTA_SET_TABLE, s.table)
		ae.String(unix.NFTA_SET_NAME, s.name)
		var flags uint32
		if s.literal {
			flags = unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT
		}
		if len(s.data) > 0 {
			flags |= unix.NFT_SET_MAP
			ae.Uint32(unix.NFTA_SET_DATA_TYPE, s.data.number())
			ae.Uint32(unix.NFTA_SET_DATA_LEN, uint32(s.data.size()))
		}
		ae.Uint32(unix.NFTA_SET_FLAGS, flags)
		ae.Uint32(unix.NFTA_SET_KEY_TYPE, s.key.number())
		ae.Uint32(unix.NFTA_SET_KEY_LEN, uint32(s.key.size()))
		ae.Uint32(unix.NFTA_SET_ID, s.id)
		if user := setUserdata(s.key, s.data); len(user) > 0 {
			ae.Bytes(unix.NFTA_SET_USERDATA, user)
		}
		return nil
	})
	m.flags = createFlags
	return m, err
}

// hooks are the names of the kernel's hooks, which the families inet and bridge number alike.
var hooks = []string{"prerouting", "input", "forward", "output", "postrouting"}

func hookNumber(name string) (uint32, error) {
	i := slices.Index(hooks, name)
	if i < 0 {
		return 0, fmt.Errorf("unknown hook %q", name)
	}
	return uint32(i), nil
}

func newChainMessage(c netstate.TableChain, family uint8) (filterMessage, error) {
	m, err := nftMessage(unix.NFT_MSG_NEWCHAIN, family, "add chain "+c.Chain.Name, func(ae *netlink.AttributeEncoder) error {
		ae.String(unix.NFTA_CHAIN_TABLE, c.Table)
		ae.String(unix.NFTA_CHAIN_NAME, c.Chain.Name)
		if c.Chain.Hook == "" {
			return nil
		}
		hook, err := hookNumber(c.Chain.Hook)
		if err != nil {
			return err
		}
		ae.Nested(unix.NFTA_CHAIN_HOOK, func(ae *netlink.AttributeEncoder) error {
			ae.Uint32(unix.NFTA_HOOK_HOOKNUM, hook)
			ae.Int32(unix.NFTA_HOOK_PRIORITY, int32(c.Chain.Priority))
			return nil
		})
		ae.String(unix.NFTA_CHAIN_TYPE, c.Chain.Type)
		return nil
	})
	m.flags = createFlags
	return m, err
}

// newRule is a rule and its place in its chain.
type newRule struct {
	netstate.TableRule
	family   uint8
	exprs    []expr.Any
	position uint64 // handle of the rule that it stands next to; 0 is the chain's end
	before   bool   // before that rule; else after it
}

func newRuleMessage(r newRule) (filterMessage, error) {
	m, err := nftMessage(unix.NFT_MSG_NEWRULE, r.family, fmt.Sprintf("add rule %q to chain %s", r.Rule, r.Chain),
		func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.NFTA_RULE_TABLE, r.Table)
			ae.String(unix.NFTA_RULE_CHAIN, r.Chain)
			if r.position != 0 {
				ae.Uint64(unix.NFTA_RULE_POSITION, r.position)
			}
			ae.Nested(unix.NFTA_RULE_EXPRESSIONS, func(ae *netlink.AttributeEncoder) error {
				for _, e := range r.exprs {
					b, err := expr.Marshal(r.family, e)
					if err != nil {
						return err
					}
					ae.Bytes(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, b)
				}
				return nil
			})
			ae.Bytes(unix.NFTA_RULE_USERDATA, appendUserdata(nil, userdataComment, ruleComment(r.Rule)))
			return nil
		})
	m.flags = netlink.Create
	if !r.before {
		m.flags |= netlink.Append
	}
	return m, err
}

// ruleComment is the comment by which a rule is recognised: a digest of its text.
func ruleComment(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "cleat " + hex.EncodeToString(sum[:8])
}

// nftElement is an element as the kernel holds it.
type nftElement struct {
	key, data []byte
	user      []byte // userdata
}

// elementsMessage adds, deletes or reads elements of one set.
func elementsMessage(kind int, set setID, what string, elems ...nftElement) (filterMessage, error) {
	return nftMessage(kind, set.family, what, func(ae *netlink.AttributeEncoder) error {
		ae.String(unix.NFTA_SET_ELEM_LIST_TABLE, set.table)
		ae.String(unix.NFTA_SET_ELEM_LIST_SET, set.name)
		if set.id != 0 {
			ae.Uint32(unix.NFTA_SET_ELEM_LIST_SET_ID, set.id)
		}
		if len(elems) == 0 {
			return nil
		}
		ae.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func(ae *netlink.AttributeEncoder) error {
			for _, e := range elems {
				ae.Nested(unix.NFTA_LIST_ELEM, e.encode)
			}
			return nil
		})
		return nil
	})
}

func (e nftElement) encode(ae *netlink.AttributeEncoder) error {
	nestedValue(ae, unix.NFTA_SET_ELEM_KEY, e.key)
	if len(e.data) > 0 {
		nestedValue(ae, unix.NFTA_SET_ELEM_DATA, e.data)
	}
	if len(e.user) > 0 {
		ae.Bytes(unix.NFTA_SET_ELEM_USERDATA, e.user)
	}
	return nil
}

func nestedValue(ae *netlink.AttributeEncoder, kind uint16, value []byte) {
	ae.Nested(kind, func(ae *netlink.AttributeEncoder) error {
		ae.Bytes(unix.NFTA_DATA_VALUE, value)
		return nil
	})
}

// maxElementBytes is how much a message's list of elements may hold: the length of an attribute
// has 16 bits.
const maxElementBytes = 48 << 10

// splitElements cuts a list so that each part fits into one message.
func splitElements(elems []nftElement) [][]nftElement {
	var parts [][]nftElement
	size, start := 0, 0
	for i, e := range elems {
		n := 64 + len(e.key) + len(e.data) + len(e.user)
		if size+n > maxElementBytes {
			parts = append(parts, elems[start:i])
			size, start = 0, i
		}
		size += n
	}
	if start < len(elems) {
		parts = append(parts, elems[start:])
	}
	return parts
}
