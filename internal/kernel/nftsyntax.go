package kernel

import (
	"fmt"
	"slices"
	"strings"
)

// ruleStmt is a statement of an nft rule, parsed but not yet given meaning: one of
// matchStmt, verdictStmt, counterStmt, markStmt, natStmt, masqueradeStmt.
type ruleStmt any

// matchStmt compares fields of a packet with something.
type matchStmt struct {
	fields []ruleField // several are concatenated
	op     string      // "", == or !=
	set    string      // name of a set; else values
	values []string    // {…}: any of them
	list   bool        // values stood in braces
	flags  []string    // established,related
}

// ruleField is a field of a packet: `ip daddr & 255.255.0.0` is {"ip daddr", "255.255.0.0"}.
type ruleField struct {
	name string
	mask string // "" is none
}

// verdictStmt ends the rule.
type verdictStmt struct {
	verdict string // accept, drop, return, jump, goto
	chain   string // of jump and goto
}

// counterStmt counts the packets that came so far.
type counterStmt struct{}

// markStmt is `meta mark set …` or `ct mark set …`.
type markStmt struct {
	key  string // meta mark, ct mark
	from string // key of the mark that value is combined with; "" sets value
	op   string // & | ^
	mask string // the value
}

// natStmt is a dnat or snat.
type natStmt struct {
	kind   string      // dnat, snat
	family string      // ip, ip6, "" as the address says
	addr   string      // the address itself
	port   string      // with addr: the port
	fields []ruleField // key of the lookup in a map
	set    string      // the map's name
	flags  []string
}

// masqueradeStmt is a masquerade.
type masqueradeStmt struct{ flags []string }

// parseRule reads a rule in nft's syntax: the subset that [netstate.Chain] promises. A rule is a sequence of
//
//	FIELD [&MASK] [==|!=] VALUE             a name, number, address or prefix; "veth*" for names that begin so
//	FIELD [==|!=] { VALUE, … }
//	FIELD VALUE,VALUE                       ct state and ct status: one of them
//	FIELD [&MASK] [. FIELD [&MASK]]… [!=] @SET
//	meta mark set, ct mark set              VALUE, or a mark and perhaps &, | or ^ and VALUE
//	dnat, snat [ip|ip6 [addr . port]] to    ADDRESS[:PORT], or FIELD [. FIELD]… map @MAP
//	masquerade                              with random, fully-random, persistent, as after dnat and snat
//	counter, accept, drop, return, jump CHAIN, goto CHAIN
//
// where FIELD is one that fieldSpecOf knows, or iifname and oifname without the word meta. What a field needs, such as
// an IPv4 packet for ip saddr, is checked without being said.
func parseRule(text string) ([]ruleStmt, error) {
	tokens, err := lexRule(text)
	if err != nil {
		return nil, fmt.Errorf("parse rule %q: %w", text, err)
	}
	p := &ruleParser{tokens: tokens}
	var stmts []ruleStmt
	for !p.done() {
		s, err := p.stmt()
		if err != nil {
			return nil, fmt.Errorf("parse rule %q: %w", text, err)
		}
		stmts = append(stmts, s)
	}
	if len(stmts) == 0 {
		return nil, fmt.Errorf("parse rule %q: no statement", text)
	}
	return stmts, nil
}

// ruleToken is a word of a rule. A quoted one is never a keyword.
type ruleToken struct {
	text   string
	quoted bool
}

// lexRule splits a rule into words. Braces, commas and operators are words of their own; a dot only if
// blanks are around it.
func lexRule(text string) ([]ruleToken, error) {
	var tokens []ruleToken
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ' ' || c == '\t':
			i++
		case c == '"':
			end := strings.IndexByte(text[i+1:], '"')
			if end < 0 {
				return nil, fmt.Errorf("no closing quote after %s", text[i:])
			}
			tokens = append(tokens, ruleToken{text[i+1 : i+1+end], true})
			i += end + 2
		case strings.HasPrefix(text[i:], "==") || strings.HasPrefix(text[i:], "!="):
			tokens = append(tokens, ruleToken{text: text[i : i+2]})
			i += 2
		case strings.IndexByte("{},&|^", c) >= 0:
			tokens = append(tokens, ruleToken{text: text[i : i+1]})
			i++
		default:
			end := strings.IndexAny(text[i:], " \t\"{},&|^=!")
			if end == 0 {
				return nil, fmt.Errorf("unexpected %q", text[i:i+1])
			}
			if end < 0 {
				end = len(text) - i
			}
			tokens = append(tokens, ruleToken{text: text[i : i+end]})
			i += end
		}
	}
	return tokens, nil
}

// ruleParser reads tokens one after the other.
type ruleParser struct {
	tokens []ruleToken
	at     int
}

func (p *ruleParser) done() bool { return p.at == len(p.tokens) }

// peek tells whether the next token is that word, unquoted.
func (p *ruleParser) peek(word string) bool {
	return !p.done() && !p.tokens[p.at].quoted && p.tokens[p.at].text == word
}

// accept passes over the next token if it is one of words, and returns it.
func (p *ruleParser) accept(words ...string) string {
	for _, w := range words {
		if p.peek(w) {
			p.at++
			return w
		}
	}
	return ""
}

func (p *ruleParser) expect(words ...string) (string, error) {
	if w := p.accept(words...); w != "" {
		return w, nil
	}
	return "", p.unexpected("want " + strings.Join(words, " or "))
}

func (p *ruleParser) unexpected(why string) error {
	if p.done() {
		return fmt.Errorf("unexpected end: %s", why)
	}
	return fmt.Errorf("unexpected %q: %s", p.tokens[p.at].text, why)
}

// value takes the next token as a value: anything that is no punctuation.
func (p *ruleParser) value() (string, error) {
	if p.done() {
		return "", p.unexpected("want a value")
	}
	t := p.tokens[p.at]
	if !t.quoted && (strings.IndexAny(t.text, "{},&|^@") == 0 || slices.Contains([]string{"==", "!=", "."}, t.text)) {
		return "", p.unexpected("want a value")
	}
	p.at++
	return t.text, nil
}

// setName takes the next token as @name.
func (p *ruleParser) setName() (string, error) {
	if p.done() || p.tokens[p.at].quoted {
		return "", p.unexpected("want @set")
	}
	name, ok := strings.CutPrefix(p.tokens[p.at].text, "@")
	if !ok || name == "" {
		return "", p.unexpected("want @set")
	}
	p.at++
	return name, nil
}

func (p *ruleParser) stmt() (ruleStmt, error) {
	if w := p.accept("accept", "drop", "return"); w != "" {
		return verdictStmt{verdict: w}, nil
	}
	if w := p.accept("jump", "goto"); w != "" {
		chain, err := p.value()
		return verdictStmt{verdict: w, chain: chain}, err
	}
	if w := p.accept("dnat", "snat"); w != "" {
		return p.nat(w)
	}
	if p.accept("masquerade") != "" {
		return masqueradeStmt{flags: p.natFlags()}, nil
	}
	if p.accept("counter") != "" {
		return counterStmt{}, nil
	}
	return p.matchOrSet()
}

// matchOrSet reads what begins with a field.
func (p *ruleParser) matchOrSet() (ruleStmt, error) {
	first, err := p.field()
	if err != nil {
		return nil, err
	}
	if p.peek("set") {
		p.at++
		if first.name != "meta mark" && first.name != "ct mark" || first.mask != "" {
			return nil, fmt.Errorf("unexpected \"set\": %s can't be set", first.name)
		}
		return p.setMark(first.name)
	}
	fields, err := p.concat(first)
	if err != nil {
		return nil, err
	}
	m := matchStmt{fields: fields, op: p.accept("==", "!=")}
	switch {
	case !p.done() && !p.tokens[p.at].quoted && strings.HasPrefix(p.tokens[p.at].text, "@"):
		m.set, err = p.setName()
	case len(fields) > 1:
		return nil, p.unexpected("a concatenation is looked up in a @set")
	case p.accept("{") != "":
		m.list = true
		m.values, err = p.values()
		if err == nil {
			_, err = p.expect("}")
		}
	default:
		m.values, err = p.values()
		if len(m.values) > 1 {
			m.flags, m.values = m.values, nil
		}
	}
	return m, err
}

// values reads values with commas between.
func (p *ruleParser) values() ([]string, error) {
	var all []string
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
		if p.accept(",") == "" {
			return all, nil
		}
	}
}

// concat reads the fields after first.
func (p *ruleParser) concat(first ruleField) ([]ruleField, error) {
	fields := []ruleField{first}
	for p.accept(".") != "" {
		f, err := p.field()
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// field reads a field and its mask.
func (p *ruleParser) field() (ruleField, error) {
	if p.done() || p.tokens[p.at].quoted {
		return ruleField{}, p.unexpected("want a statement")
	}
	start := p.at
	var name string
	switch p.accept("iifname", "oifname", "fib", "ip", "ip6", "meta", "ct", "th", "ether", "icmp", "icmpv6") {
	case "":
		return ruleField{}, p.unexpected("want a statement")
	case "iifname":
		name = "meta iifname"
	case "oifname":
		name = "meta oifname"
	case "fib":
		if _, err := p.expect("daddr"); err != nil {
			return ruleField{}, err
		}
		if _, err := p.expect("type"); err != nil {
			return ruleField{}, err
		}
		name = fibDestination
	default:
		second, err := p.value()
		if err != nil {
			return ruleField{}, err
		}
		name = p.tokens[start].text + " " + second
	}
	if fieldSpecOf(name).typ == nil {
		return ruleField{}, fmt.Errorf("unknown field %q", name)
	}
	f := ruleField{name: name}
	if p.accept("&") != "" {
		mask, err := p.value()
		if err != nil {
			return ruleField{}, err
		}
		f.mask = mask
	}
	return f, nil
}

// setMark reads what stands after `meta mark set`.
func (p *ruleParser) setMark(key string) (ruleStmt, error) {
	s := markStmt{key: key}
	if from := p.accept("meta", "ct"); from != "" {
		if _, err := p.expect("mark"); err != nil {
			return nil, err
		}
		s.from = from + " mark"
		if s.op = p.accept("&", "|", "^"); s.op == "" {
			return s, nil
		}
	}
	var err error
	s.mask, err = p.value()
	return s, err
}

// nat reads what stands after dnat or snat.
func (p *ruleParser) nat(kind string) (ruleStmt, error) {
	n := natStmt{kind: kind, family: p.accept("ip", "ip6")}
	if n.family != "" && p.accept("addr") != "" {
		if _, err := p.expect("."); err != nil {
			return nil, err
		}
		if _, err := p.expect("port"); err != nil {
			return nil, err
		}
	}
	if _, err := p.expect("to"); err != nil {
		return nil, err
	}
	if p.done() {
		return nil, p.unexpected("want an address or a map")
	}
	if !p.startsField() {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		n.addr, n.port, err = splitAddrPort(v)
		n.flags = p.natFlags()
		return n, err
	}
	first, err := p.field()
	if err != nil {
		return nil, err
	}
	if n.fields, err = p.concat(first); err != nil {
		return nil, err
	}
	if _, err := p.expect("map"); err != nil {
		return nil, err
	}
	n.set, err = p.setName()
	n.flags = p.natFlags()
	return n, err
}

// startsField tells whether a field comes next, and not an address.
func (p *ruleParser) startsField() bool {
	t := p.tokens[p.at]
	return !t.quoted && strings.IndexAny(t.text, "0123456789:[") != 0 &&
		!strings.Contains(t.text, ":")
}

func (p *ruleParser) natFlags() []string {
	var flags []string
	for {
		f := p.accept("random", "fully-random", "persistent")
		if f == "" {
			return flags
		}
		flags = append(flags, f)
		p.accept(",")
	}
}

// splitAddrPort takes 10.0.0.1, 10.0.0.1:80, fd00::1 or [fd00::1]:80 apart.
func splitAddrPort(text string) (addr, port string, err error) {
	if rest, ok := strings.CutPrefix(text, "["); ok {
		addr, rest, ok = strings.Cut(rest, "]")
		if !ok {
			return "", "", fmt.Errorf("unexpected %q: no closing bracket", text)
		}
		if rest == "" {
			return addr, "", nil
		}
		if port, ok = strings.CutPrefix(rest, ":"); !ok || port == "" {
			return "", "", fmt.Errorf("unexpected %q: want [address]:port", text)
		}
		return addr, port, nil
	}
	if strings.Count(text, ":") == 1 {
		addr, port, _ = strings.Cut(text, ":")
		if port == "" {
			return "", "", fmt.Errorf("unexpected %q: want address:port", text)
		}
		return addr, port, nil
	}
	return text, "", nil
}
