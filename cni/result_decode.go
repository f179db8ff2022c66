package cni

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// form is how versions of the specification write a result. The forms are ordered by age.
type form int

const (
	formFamilies form = iota // 0.1.0, 0.2.0: ip4 and ip6
	formLists                // 0.3.0 to 0.4.0: interfaces, ips, routes
	formCurrent              // from 1.0.0 on: no ips[].version, more of an interface
)

func formOf(version string) form {
	switch {
	case AtLeast(version, "1.0.0"):
		return formCurrent
	case AtLeast(version, "0.3.0"):
		return formLists
	}
	return formFamilies
}

// The keys that a form has. What else stands there is kept as it is.

func (f form) resultKeys() []string {
	if f == formFamilies {
		return []string{"cniVersion", "ip4", "ip6", "dns"}
	}
	return []string{"cniVersion", "interfaces", "ips", "routes", "dns"}
}

func (f form) interfaceKeys() []string {
	if f < formCurrent {
		return []string{"name", "mac", "sandbox"}
	}
	return []string{"name", "mac", "sandbox", "mtu", "socketPath", "pciID"}
}

func (f form) ipKeys() []string {
	if f == formFamilies {
		return []string{"ip", "gateway", "routes"}
	}
	return []string{"version", "interface", "address", "gateway"}
}

func routeKeys() []string {
	return []string{"dst", "gw", "mtu", "advmss", "priority", "table", "scope"}
}

func dnsKeys() []string {
	return []string{"nameservers", "domain", "search", "options"}
}

// DecodeResult reads a result of any version. A result that names no version is of
// version fallback, the one of the request. What can't be read is an error with code 6 that names
// the place and has a [*SyntaxError] as its cause, a version that isn't spoken one with code 1.
//
// Addresses and routes keep the bits behind their prefix length; an IPv4 address in IPv6
// notation (::ffff:10.0.0.1) becomes IPv4.
func DecodeResult(data []byte, fallback string) (*Result, error) {
	o, err := ParseObject(data)
	if err != nil {
		return nil, Errorf(CodeDecode, "decode result: %w", err)
	}
	return decodeResult(o, fallback)
}

func decodeResult(o *Object, fallback string) (*Result, error) {
	var written string
	if _, err := o.Decode("cniVersion", &written); err != nil {
		return nil, Errorf(CodeDecode, "decode result: %w", err)
	}
	written = cmp.Or(written, fallback)
	version, ok := spoken(written)
	if !ok {
		what := "version"
		if o.path != "" {
			what = o.path + ": version"
		}
		return nil, notSpoken("decode result: "+what, written)
	}
	r, err := decodeBody(o, version)
	if err != nil {
		return nil, Errorf(CodeDecode, "decode result: %w", err)
	}
	return r, nil
}

func decodeBody(o *Object, version string) (*Result, error) {
	f := formOf(version)
	r := &Result{CNIVersion: version, Extra: extra(o, f.resultKeys())}
	var err error
	if r.DNS, err = decodeDNS(o); err != nil {
		return nil, err
	}
	if f == formFamilies {
		if err := r.decodeFamilies(o); err != nil {
			return nil, err
		}
		return r, nil
	}
	if r.Interfaces, err = each(o, "interfaces", f.decodeInterface); err != nil {
		return nil, err
	}
	r.IPs, err = each(o, "ips", func(o *Object) (IP, error) { return decodeIP(o, len(r.Interfaces)) })
	if err != nil {
		return nil, err
	}
	if r.Routes, err = each(o, "routes", decodeRoute); err != nil {
		return nil, err
	}
	return r, nil
}

// decodeFamilies reads what 0.1.0 and 0.2.0 have in the place of ips and routes.
func (r *Result) decodeFamilies(o *Object) error {
	for _, key := range []string{"ip4", "ip6"} {
		own, ok, err := o.object(key)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		ip := IP{Extra: extra(own, formFamilies.ipKeys())}
		if ip.Address, err = decodePrefix(own, "ip"); err != nil {
			return err
		}
		if ip.Address.Addr().Is4() != (key == "ip4") {
			return own.fault("ip", "%s is of the other family", ip.Address)
		}
		if ip.Gateway, err = decodeAddr(own, "gateway"); err != nil {
			return err
		}
		routes, err := each(own, "routes", decodeRoute)
		if err != nil {
			return err
		}
		r.IPs = append(r.IPs, ip)
		r.Routes = append(r.Routes, routes...)
	}
	return nil
}

func (f form) decodeInterface(o *Object) (Interface, error) {
	keys := f.interfaceKeys()
	i := Interface{Extra: extra(o, keys)}
	for _, f := range []struct {
		key  string
		into *string
	}{
		{"name", &i.Name}, {"mac", &i.MAC}, {"sandbox", &i.Sandbox}, {"socketPath", &i.SocketPath}, {"pciID", &i.PCIID},
	} {
		if !slices.Contains(keys, f.key) {
			continue
		}
		if _, err := o.Decode(f.key, f.into); err != nil {
			return i, err
		}
	}
	if !slices.Contains(keys, "mtu") {
		return i, nil
	}
	mtu, err := decodeNumber(o, "mtu")
	i.MTU = mtu.Value
	return i, err
}

// decodeIP reads an element of ips, of a result with a number of interfaces.
func decodeIP(o *Object, interfaces int) (IP, error) {
	ip := IP{Extra: extra(o, formLists.ipKeys())}
	var err error
	if ip.Interface.Set, err = o.Decode("interface", &ip.Interface.Value); err != nil {
		return ip, err
	}
	switch i := ip.Interface; {
	case i.Set && i.Value == -1:
		ip.Interface = Opt[int]{} // some implementations write that for none
	case i.Set && (i.Value < 0 || i.Value >= interfaces):
		return ip, o.fault("interface", "%d is not the index of one of the %d interfaces", i.Value, interfaces)
	}
	if ip.Address, err = decodePrefix(o, "address"); err != nil {
		return ip, err
	}
	ip.Gateway, err = decodeAddr(o, "gateway")
	return ip, err
}

func decodeRoute(o *Object) (Route, error) {
	r := Route{Extra: extra(o, routeKeys())}
	var err error
	if r.Dst, err = decodePrefix(o, "dst"); err != nil {
		return r, err
	}
	if r.GW, err = decodeAddr(o, "gw"); err != nil {
		return r, err
	}
	var mtu, mss, priority Opt[int]
	for _, f := range []struct {
		key  string
		into *Opt[int]
	}{
		{"mtu", &mtu}, {"advmss", &mss}, {"priority", &priority}, {"table", &r.Table}, {"scope", &r.Scope},
	} {
		if *f.into, err = decodeNumber(o, f.key); err != nil {
			return r, err
		}
	}
	r.MTU, r.AdvMSS, r.Priority = mtu.Value, mss.Value, priority.Value
	return r, nil
}

// decodeDNS reads the dns member of a result or a configuration. Its keys are read
// in any case, since configurations for Windows are written with capitals.
func decodeDNS(o *Object) (DNS, error) {
	var d DNS
	own, ok, err := o.object("dns")
	if err != nil || !ok {
		return d, err
	}
	into := []any{&d.Nameservers, &d.Domain, &d.Search, &d.Options} // as dnsKeys
	for i, m := range own.members {
		known := slices.IndexFunc(dnsKeys(), func(key string) bool { return strings.EqualFold(key, m.Key) })
		n := own.node(i)
		switch {
		case known < 0:
			d.Extra = append(d.Extra, m)
		case !n.isNull():
			if err := n.decode(into[known]); err != nil {
				return DNS{}, err
			}
		}
	}
	return d, nil
}

// each decodes the elements, which are objects, of the list under key.
func each[T any](o *Object, key string, decode func(o *Object) (T, error)) ([]T, error) {
	n, ok := o.get(key)
	if !ok {
		return nil, nil
	}
	items, err := n.list()
	if err != nil {
		return nil, err
	}
	var list []T
	for _, item := range items {
		own, err := item.object()
		if err != nil {
			return nil, err
		}
		v, err := decode(own)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// extra returns the members whose keys are not in known.
func extra(o *Object, known []string) []Member {
	var rest []Member
	for _, m := range o.members {
		if !slices.Contains(known, m.Key) {
			rest = append(rest, m)
		}
	}
	return rest
}

// decodeNumber reads a number that is not negative.
func decodeNumber(o *Object, key string) (Opt[int], error) {
	var n Opt[int]
	var err error
	if n.Set, err = o.Decode(key, &n.Value); err != nil {
		return n, err
	}
	if n.Value < 0 {
		return n, o.fault(key, "%d is negative", n.Value)
	}
	return n, nil
}

// decodePrefix reads an address with its prefix length, which must be there.
func decodePrefix(o *Object, key string) (netip.Prefix, error) {
	var text string
	if ok, err := o.Decode(key, &text); err != nil {
		return netip.Prefix{}, err
	} else if !ok || text == "" {
		return netip.Prefix{}, o.fault(key, "is missing: write an address with its prefix length, as 10.1.0.5/24")
	}
	p, err := netip.ParsePrefix(text)
	if err == nil {
		p = plainPrefix(p)
	}
	switch {
	case err == nil && p.IsValid():
		return p, nil
	case err == nil:
		return p, o.fault(key, "%s: an IPv4 address in IPv6 notation needs a prefix length of at least 96", shown(text))
	case !strings.Contains(text, "/"):
		return p, o.fault(key, "%s has no prefix length: write it as 10.1.0.5/24", shown(text))
	}
	return p, o.fault(key, "%s is no address with prefix length: write it as 10.1.0.5/24", shown(text))
}

// plainPrefix turns ::ffff:10.0.0.1/120 into 10.0.0.1/24; what has no IPv4 form is invalid.
func plainPrefix(p netip.Prefix) netip.Prefix {
	if !p.Addr().Is4In6() {
		return p
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
}

// decodeAddr reads an address; a missing or empty one is the zero Addr.
func decodeAddr(o *Object, key string) (netip.Addr, error) {
	var text string
	if _, err := o.Decode(key, &text); err != nil || text == "" {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, o.fault(key, "%s is no IP address", shown(text))
	}
	return a.Unmap(), nil
}
