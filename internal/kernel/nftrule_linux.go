package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// compiledRule is a rule as the kernel takes it.
type compiledRule struct {
	exprs []expr.Any
	// literals are the sets that the rule writes out. The i-th is the one that lookups
	// with the set id i+1 mean.
	literals []literalSet
}

// literalSet is an anonymous set: {tcp, udp}.
type literalSet struct {
	typ      *valueType
	elements [][]byte
}

// registers is how many registers of four bytes a rule has. The first is
// NFT_REG32_00.
const registers = 16

// ruleCompiler turns the statements of one rule into expressions.
type ruleCompiler struct {
	table netstate.Table
	out   compiledRule
	met   []string // needs of fields that an expression has made sure of
}

// compileRule compiles a rule of a chain of t. The sets and chains that it names must be among t's.
func compileRule(t netstate.Table, text string) (compiledRule, error) {
	stmts, err := parseRule(text)
	if err != nil {
		return compiledRule{}, err
	}
	c := &ruleCompiler{table: t}
	for _, s := range stmts {
		if err := c.stmt(s); err != nil {
			return compiledRule{}, fmt.Errorf("compile rule %q: %w", text, err)
		}
	}
	return c.out, nil
}

func (c *ruleCompiler) emit(e ...expr.Any) { c.out.exprs = append(c.out.exprs, e...) }

func (c *ruleCompiler) stmt(s ruleStmt) error {
	switch s := s.(type) {
	case matchStmt:
		return c.match(s)
	case verdictStmt:
		return c.verdict(s)
	case counterStmt:
		c.emit(&expr.Counter{})
	case markStmt:
		return c.setMark(s)
	case natStmt:
		return c.nat(s)
	case masqueradeStmt:
		c.emit(&expr.Masq{
			Random:      slices.Contains(s.flags, "random"),
			FullyRandom: slices.Contains(s.flags, "fully-random"),
			Persistent:  slices.Contains(s.flags, "persistent"),
		})
	default:
		return fmt.Errorf("unknown statement %T", s)
	}
	return nil
}

func (c *ruleCompiler) verdict(s verdictStmt) error {
	kinds := map[string]expr.VerdictKind{
		"accept": expr.VerdictAccept, "drop": expr.VerdictDrop, "return": expr.VerdictReturn,
		"jump": expr.VerdictJump, "goto": expr.VerdictGoto,
	}
	kind, ok := kinds[s.verdict]
	if !ok {
		return fmt.Errorf("unknown verdict %q", s.verdict)
	}
	if s.chain != "" && !slices.ContainsFunc(c.table.Chains, func(o netstate.Chain) bool { return o.Name == s.chain }) {
		return fmt.Errorf("chain %s is not declared in table %s", s.chain, c.table.Name)
	}
	c.emit(&expr.Verdict{Kind: kind, Chain: s.chain})
	return nil
}

// register is the number of the i-th register of four bytes.
func register(i int) uint32 { return uint32(unix.NFT_REG32_00 + i) }

// match compiles a comparison.
func (c *ruleCompiler) match(m matchStmt) error {
	types, err := c.loadAll(m.fields)
	if err != nil {
		return err
	}
	invert := m.op == "!="
	if m.set != "" {
		set, err := c.set(m.set, types)
		if err != nil {
			return err
		}
		if len(set.Data) > 0 {
			return fmt.Errorf("@%s is a map", m.set)
		}
		c.emit(&expr.Lookup{SourceRegister: register(0), SetName: m.set, Invert: invert})
		return nil
	}
	spec, typ := fieldSpecOf(m.fields[0].name), types[0]
	switch {
	case m.list:
		return c.literal(typ, m.values, invert)
	case len(m.flags) > 0:
		return c.anyBit(spec, m.flags, m.op)
	case spec.bits && m.op == "" && m.fields[0].mask == "":
		return c.anyBit(spec, m.values, m.op)
	}
	return c.compare(m.fields[0], m.values[0], invert)
}

// compare compares register 0, which holds field, with a value: a plain one, a prefix, or a
// name that ends with an asterisk.
func (c *ruleCompiler) compare(field ruleField, text string, invert bool) error {
	spec := fieldSpecOf(field.name)
	op := expr.CmpOpEq
	if invert {
		op = expr.CmpOpNeq
	}
	if strings.Contains(text, "/") && (spec.typ.name == "ipv4_addr" || spec.typ.name == "ipv6_addr") {
		return c.comparePrefix(field, text, op)
	}
	if stem, ok := strings.CutSuffix(text, "*"); ok && spec.typ.name == "ifname" {
		if _, err := spec.typ.encode(stem); err != nil {
			return err
		}
		c.emit(&expr.Cmp{Op: op, Register: register(0), Data: []byte(stem)})
		return nil
	}
	v, err := spec.typ.encode(text)
	if err != nil {
		return err
	}
	c.emit(&expr.Cmp{Op: op, Register: register(0), Data: v})
	return nil
}

func (c *ruleCompiler) comparePrefix(field ruleField, text string, op expr.CmpOp) error {
	spec := fieldSpecOf(field.name)
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().BitLen() != 8*spec.typ.size {
		return fmt.Errorf("%q is no prefix of %s", text, spec.typ.name)
	}
	addr := p.Masked().Addr().AsSlice()
	if field.mask == "" && p.Bits() > 0 && p.Bits()%8 == 0 {
		// Whole bytes: it is enough to load those.
		load, ok := c.out.exprs[len(c.out.exprs)-1].(*expr.Payload)
		if !ok {
			return errors.New("an address that is no payload")
		}
		load.Len = uint32(p.Bits() / 8)
		c.emit(&expr.Cmp{Op: op, Register: register(0), Data: addr[:load.Len]})
		return nil
	}
	c.mask(0, netstate.Netmask(p).AsSlice())
	c.emit(&expr.Cmp{Op: op, Register: register(0), Data: addr})
	return nil
}

// mask emits register &= mask.
func (c *ruleCompiler) mask(reg int, mask []byte) {
	c.emit(&expr.Bitwise{
		SourceRegister: register(reg), DestRegister: register(reg),
		Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask)),
	})
}

// anyBit compares the bits in register 0 with flags. Without an operator one of them is
// enough; with one all must be just so.
func (c *ruleCompiler) anyBit(spec fieldSpec, flags []string, op string) error {
	if !spec.bits {
		return fmt.Errorf("unexpected %q: a list of values of %s stands in braces", flags[1], spec.typ.name)
	}
	var bits uint32
	for _, f := range flags {
		v, err := spec.typ.encode(f)
		if err != nil {
			return err
		}
		bits |= binary.NativeEndian.Uint32(v)
	}
	value := binary.NativeEndian.AppendUint32(nil, bits)
	switch op {
	case "":
		c.mask(0, value)
		c.emit(&expr.Cmp{Op: expr.CmpOpNeq, Register: register(0), Data: make([]byte, 4)})
	case "!=":
		c.emit(&expr.Cmp{Op: expr.CmpOpNeq, Register: register(0), Data: value})
	default:
		c.emit(&expr.Cmp{Op: expr.CmpOpEq, Register: register(0), Data: value})
	}
	return nil
}

// literal looks register 0 up in a set of its own.
func (c *ruleCompiler) literal(typ *valueType, values []string, invert bool) error {
	set := literalSet{typ: typ}
	for _, text := range values {
		v, err := typ.encode(text)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(set.elements, func(have []byte) bool { return bytes.Equal(have, v) }) {
			set.elements = append(set.elements, v)
		}
	}
	c.out.literals = append(c.out.literals, set)
	c.emit(&expr.Lookup{
		SourceRegister: register(0), SetName: literalName,
		SetID: uint32(len(c.out.literals)), Invert: invert,
	})
	return nil
}

// set returns the declaration of a set that is looked up with a key of types.
func (c *ruleCompiler) set(name string, types valueTypeList) (netstate.Set, error) {
	i := slices.IndexFunc(c.table.Sets, func(s netstate.Set) bool { return s.Name == name })
	if i < 0 {
		return netstate.Set{}, fmt.Errorf("set @%s is not declared in table %s", name, c.table.Name)
	}
	set := c.table.Sets[i]
	if !slices.Equal(set.Key, types.names()) {
		return netstate.Set{}, fmt.Errorf("@%s has key type %s, not %s", name,
			strings.Join(set.Key, " . "), strings.Join(types.names(), " . "))
	}
	return set, nil
}

// loadAll loads fields side by side, from register 0 on, and returns their types.
func (c *ruleCompiler) loadAll(fields []ruleField) (valueTypeList, error) {
	var types valueTypeList
	for _, f := range fields {
		if err := c.require(fieldSpecOf(f.name).needs); err != nil {
			return nil, err
		}
	}
	next := 0
	for _, f := range fields {
		spec := fieldSpecOf(f.name)
		words := padded(spec.typ.size) / 4
		if next+words > registers {
			return nil, fmt.Errorf("%s and those before it are longer than %d bytes", f.name, 4*registers)
		}
		c.load(spec, next)
		if f.mask != "" {
			mask, err := spec.typ.encode(f.mask)
			if err != nil {
				return nil, fmt.Errorf("mask of %s: %w", f.name, err)
			}
			c.mask(next, mask)
		}
		types = append(types, spec.typ)
		next += words
	}
	return types, nil
}

func (c *ruleCompiler) load(spec fieldSpec, reg int) {
	switch spec.load {
	case loadMeta:
		c.emit(&expr.Meta{Key: expr.MetaKey(spec.key), Register: register(reg)})
	case loadCT:
		c.emit(&expr.Ct{Key: expr.CtKey(spec.key), Register: register(reg)})
	case loadFIB:
		c.emit(&expr.Fib{Register: register(reg), FlagDADDR: true, ResultADDRTYPE: true})
	case loadPayload:
		c.emit(&expr.Payload{
			DestRegister: register(reg), Base: expr.PayloadBase(spec.key),
			Offset: spec.offset, Len: uint32(spec.typ.size),
		})
	}
}

// require makes sure, once a rule, that a packet is what a field is part of.
func (c *ruleCompiler) require(need string) error {
	if need == "" || slices.Contains(c.met, need) {
		return nil
	}
	c.met = append(c.met, need)
	bridge := c.table.Family == "bridge"
	check := func(key uint32, value ...byte) {
		c.emit(&expr.Meta{Key: expr.MetaKey(key), Register: register(0)},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register(0), Data: value})
	}
	switch need {
	case "ip":
		if bridge {
			check(metaProtocol, 0x08, 0x00)
		} else {
			check(metaNFProto, unix.NFPROTO_IPV4)
		}
	case "ip6":
		if bridge {
			check(metaProtocol, 0x86, 0xdd)
		} else {
			check(metaNFProto, unix.NFPROTO_IPV6)
		}
	case "ether":
		if !bridge {
			check(metaIIFType, binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_ETHER)...)
		}
	case "icmp":
		if err := c.require("ip"); err != nil {
			return err
		}
		check(metaL4Proto, unix.IPPROTO_ICMP)
	case "icmpv6":
		if err := c.require("ip6"); err != nil {
			return err
		}
		check(metaL4Proto, unix.IPPROTO_ICMPV6)
	default:
		return fmt.Errorf("unknown need %q of a field", need)
	}
	return nil
}

// setMark compiles `meta mark set meta mark | 0x4000` and the like.
func (c *ruleCompiler) setMark(s markStmt) error {
	value := make([]byte, 4)
	if s.mask != "" {
		var err error
		if value, err = encodeMark(s.mask); err != nil {
			return err
		}
	}
	if s.from == "" {
		c.emit(&expr.Immediate{Register: register(0), Data: value})
	} else {
		c.load(fieldSpecOf(s.from), 0)
		mask, xor := []byte{0xff, 0xff, 0xff, 0xff}, make([]byte, 4)
		switch s.op {
		case "&":
			mask = value
		case "|":
			xor = value
			for i := range mask {
				mask[i] = ^value[i]
			}
		case "^":
			xor = value
		}
		if s.op != "" {
			c.emit(&expr.Bitwise{SourceRegister: register(0), DestRegister: register(0), Len: 4, Mask: mask, Xor: xor})
		}
	}
	if s.key == "ct mark" {
		c.emit(&expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: register(0)})
	} else {
		c.emit(&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: register(0)})
	}
	return nil
}

// nat compiles dnat and snat, to an address or to what a map says.
func (c *ruleCompiler) nat(s natStmt) error {
	out := &expr.NAT{
		Type:        expr.NATTypeDestNAT,
		Random:      slices.Contains(s.flags, "random"),
		FullyRandom: slices.Contains(s.flags, "fully-random"),
		Persistent:  slices.Contains(s.flags, "persistent"),
		RegAddrMin:  register(0),
	}
	if s.kind == "snat" {
		out.Type = expr.NATTypeSourceNAT
	}
	to, port, err := c.natTarget(s)
	if err != nil {
		return err
	}
	family := map[string]string{"ipv4_addr": "ip", "ipv6_addr": "ip6"}[to[0].name]
	if family == "" || len(to) > 2 || len(to) == 2 && to[1].name != "inet_service" {
		return fmt.Errorf("%s to %s: want an address and at most a port", s.kind, strings.Join(to.names(), " . "))
	}
	if s.family != "" && s.family != family {
		return fmt.Errorf("%s %s to an address of %s", s.kind, s.family, family)
	}
	out.Family = unix.NFPROTO_IPV4
	if family == "ip6" {
		out.Family = unix.NFPROTO_IPV6
	}
	if len(to) == 2 {
		out.RegProtoMin = port
	}
	c.emit(out)
	return nil
}

// natTarget puts an address, and perhaps a port, into registers: the address into the first, the
// port into the one that it returns beside the types of both.
func (c *ruleCompiler) natTarget(s natStmt) (to valueTypeList, port uint32, err error) {
	if s.set != "" {
		to, err = c.natMap(s)
		if err != nil {
			return nil, 0, err
		}
		return to, register(padded(to[0].size) / 4), nil
	}
	a, err := netip.ParseAddr(s.addr)
	if err != nil || a.Zone() != "" {
		return nil, 0, fmt.Errorf("%q is no address", s.addr)
	}
	to = valueTypeList{mustType("ipv4_addr")}
	if a.Is6() {
		to[0] = mustType("ipv6_addr")
	}
	c.emit(&expr.Immediate{Register: register(0), Data: a.AsSlice()})
	if s.port == "" {
		return to, 0, nil
	}
	v, err := encodePort(s.port)
	if err != nil {
		return nil, 0, err
	}
	port = register(4) // behind the longest address
	c.emit(&expr.Immediate{Register: port, Data: v})
	return append(to, mustType("inet_service")), port, nil
}

// natMap looks the target up and returns its types.
func (c *ruleCompiler) natMap(s natStmt) (valueTypeList, error) {
	key, err := c.loadAll(s.fields)
	if err != nil {
		return nil, err
	}
	set, err := c.set(s.set, key)
	if err != nil {
		return nil, err
	}
	if len(set.Data) == 0 {
		return nil, fmt.Errorf("@%s is no map", s.set)
	}
	c.emit(&expr.Lookup{
		SourceRegister: register(0), SetName: s.set,
		DestRegister: register(0), IsDestRegSet: true,
	})
	return typesOf(set.Data)
}
