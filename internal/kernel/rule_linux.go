package kernel

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// addRules adds the routing rules of one place.
func (c *change) addRules(b *batch, p netstate.Place) {
	for i := range c.state.Rules {
		rl := &c.state.Rules[i]
		if rl.Place != p {
			continue
		}
		r := &request{kind: unix.RTM_NEWRULE, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL, body: ruleMessage(rl), object: rl}
		if rl.Shared {
			r.accept = acceptOnly(unix.EEXIST)
		} else {
			r.undo = c.s.reverse(p, deleteRule(rl))
		}
		*b = append(*b, r)
	}
}

func deleteRule(rl *netstate.Rule) *request {
	return &request{kind: unix.RTM_DELRULE, body: ruleMessage(rl), object: rl, step: "remove", accept: isMissing}
}

// ruleFamily is the family of the prefixes; IPv4 without any.
func ruleFamily(rl *netstate.Rule) uint8 {
	for _, p := range []netip.Prefix{rl.From, rl.To} {
		if p.IsValid() {
			return family(p.Addr())
		}
	}
	return unix.AF_INET
}

// sizeofFibRuleHdr is struct fib_rule_hdr.
const sizeofFibRuleHdr = 12

func ruleMessage(rl *netstate.Rule) message {
	m := newMessage(sizeofFibRuleHdr)
	h := m.family()
	h[0] = ruleFamily(rl)
	h[7] = unix.FR_ACT_TO_TBL
	putTable(&m, ruleTable(rl.Table), &h[4], unix.FRA_TABLE)
	if rl.From.IsValid() {
		h[2] = uint8(rl.From.Bits())
		if rl.From.Bits() > 0 {
			m.bytes(unix.FRA_SRC, rl.From.Masked().Addr().AsSlice())
		}
	}
	if rl.To.IsValid() {
		m.family()[1] = uint8(rl.To.Bits())
		if rl.To.Bits() > 0 {
			m.bytes(unix.FRA_DST, rl.To.Masked().Addr().AsSlice())
		}
	}
	if rl.Priority != 0 {
		m.u32(unix.FRA_PRIORITY, uint32(rl.Priority))
	}
	return m
}

// ruleTable is the table that a rule looks up.
func ruleTable(table int) int { return netstate.Route{Table: table}.InTable() }

// policy is a rule of the kernel.
type policy struct {
	netstate.Rule
	plain bool // it looks up a table by addresses, and does nothing more or else
}

// parsePolicy reads the body of RTM_NEWRULE.
func parsePolicy(place netstate.Place, b []byte) (policy, bool) {
	if len(b) < sizeofFibRuleHdr {
		return policy{}, false
	}
	const tos, action, flags = 3, 7, 8
	r := policy{Rule: netstate.Rule{Place: place, Table: int(b[4])}}
	r.plain = b[action] == unix.FR_ACT_TO_TBL && b[tos] == 0 && native.Uint32(b[flags:])&unix.FIB_RULE_INVERT == 0
	for kind, v := range attributes(b[sizeofFibRuleHdr:]) {
		switch kind {
		case unix.FRA_SRC:
			r.From = prefixOf(v, b[2])
		case unix.FRA_DST:
			r.To = prefixOf(v, b[1])
		case unix.FRA_TABLE:
			r.Table = int(number(v))
		case unix.FRA_PRIORITY:
			r.Priority = int(number(v))
		case unix.FRA_SUPPRESS_PREFIXLEN, unix.FRA_SUPPRESS_IFGROUP:
			r.plain = r.plain && int32(number(v)) == -1
		case unix.FRA_L3MDEV:
			r.plain = r.plain && number(v) == 0
		case unix.FRA_IIFNAME, unix.FRA_OIFNAME, unix.FRA_FWMARK, unix.FRA_TUN_ID, unix.FRA_UID_RANGE,
			unix.FRA_IP_PROTO, unix.FRA_SPORT_RANGE, unix.FRA_DPORT_RANGE:
			r.plain = false
		}
	}
	return r, true
}

func prefixOf(b []byte, bits uint8) netip.Prefix {
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, int(bits))
}

// rules lists the routing rules of a family.
func (c *conn) rules(ctx context.Context, place netstate.Place, family uint8) ([]policy, error) {
	m := newMessage(sizeofFibRuleHdr)
	m.family()[0] = family
	var list []policy
	err := c.dump(ctx, unix.RTM_GETRULE, m, func(_ uint16, b []byte) {
		if r, ok := parsePolicy(place, b); ok {
			list = append(list, r)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list rules of the %s: %w", place, err)
	}
	return list, nil
}
