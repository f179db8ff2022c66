package cni

import (
	"net/netip"
	"slices"
	"strings"
)

// legacy reports whether a version has the first form of the result, with ip4 and ip6.
func legacy(version string) bool { return !AtLeast(version, "0.3.0") }

// The keys that a result of a version has. What else stands there is kept as it is.
func resultKeys(version string) []string {
	if legacy(version) {
		return []string{"cniVersion", "ip4", "ip6", "dns"}
	}
	return []string{"cniVersion", "interfaces", "ips", "routes", "dns"}
}

func interfaceKeys(version string) []string {
	keys := []string{"name", "mac", "sandbox"}
	if AtLeast(version, "1.0.0") {
		keys = append(keys, "mtu", "socketPath", "pciID")
	}
	return keys
}

func ipKeys(version string) []string {
	if legacy(version) {
		return []string{"ip", "gateway", "routes"}
	}
	return []string{"version", "interface", "address", "gateway"}
}

func routeKeys() []string {
	return []string{"dst", "gw", "mtu", "advmss", "priority", "table", "scope"}
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
	version := fallback
	if n, ok := o.get("cniVersion"); ok {
		var own string
		if err := n.decode(&own); err != nil {
			return nil, Errorf(CodeDecode, "decode result: %w", err)
		}
		if own != "" {
			version = own
		}
	}
	version, ok := spoken(version)
	if !ok {
		return nil, notSpoken("decode result: version", versionOf(o, fallback))
	}
	r, err := decodeBody(o, version)
	if err != nil {
		return nil, Errorf(CodeDecode, "decode result: %w", err)
	}
	return r, nil
}

// versionOf is the version of a result as it was written.
func versionOf(o *Object, fallback string) string {
	var own string
	if ok, err := o.Decode("cniVersion", &own); err != nil || !ok || own == "" {
		return fallback
	}
	return own
}

func decodeBody(o *Object, version string) (*Result, error) {
	r := &Result{CNIVersion: version, Extra: extra(o, resultKeys(version))}
	var err error
	if r.DNS, err = decodeDNS(o); err != nil {
		return nil, err
	}
	if legacy(version) {
		return r, r.decodeLegacy(o, version)
	}
	err = each(o, "interfaces", func(o *Object) error {
		i, err := decodeInterface(o, version)
		r.Interfaces = append(r.Interfaces, i)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = each(o, "ips", func(o *Object) error {
		ip, err := decodeIP(o, version, len(r.Interfaces))
		r.IPs = append(r.IPs, ip)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = each(o, "routes", func(o *Object) error {
		route, err := decodeRoute(o)
		r.Routes = append(r.Routes, route)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// decodeLegacy reads what 0.1.0 and 0.2.0 have in the place of ips and routes.
func (r *Result) decodeLegacy(o *Object, version string) error {
	for _, key := range []string{"ip4", "ip6"} {
		own, ok, err := o.object(key)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		ip := IP{Extra: extra(own, ipKeys(version))}
		if ip.Address, err = decodePrefix(own, "ip"); err != nil {
			return err
		}
		if ip.Address.Addr().Is4() != (key == "ip4") {
			return own.fault("ip", "%s is of the other family", ip.Address)
		}
		if ip.Gateway, err = decodeAddr(own, "gateway"); err != nil {
			return err
		}
		r.IPs = append(r.IPs, ip)
		err = each(own, "routes", func(o *Object) error {
			route, err := decodeRoute(o)
			r.Routes = append(r.Routes, route)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func decodeInterface(o *Object, version string) (Interface, error) {
	keys := interfaceKeys(version)
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

func decodeIP(o *Object, version string, interfaces int) (IP, error) {
	ip := IP{Extra: extra(o, ipKeys(version))}
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
	for i, m := range own.members {
		var err error
		switch n := own.node(i); {
		case strings.EqualFold(m.Key, "nameservers"):
			err = decodeOptional(n, &d.Nameservers)
		case strings.EqualFold(m.Key, "domain"):
			err = decodeOptional(n, &d.Domain)
		case strings.EqualFold(m.Key, "search"):
			err = decodeOptional(n, &d.Search)
		case strings.EqualFold(m.Key, "options"):
			err = decodeOptional(n, &d.Options)
		default:
			d.Extra = append(d.Extra, m)
		}
		if err != nil {
			return DNS{}, err
		}
	}
	return d, nil
}

func decodeOptional(n node, into any) error {
	if n.isNull() {
		return nil
	}
	return n.decode(into)
}

// each calls f for each element, an object, of the list under key.
func each(o *Object, key string, f func(o *Object) error) error {
	n, ok := o.get(key)
	if !ok {
		return nil
	}
	items, err := n.list()
	if err != nil {
		return err
	}
	for _, item := range items {
		own, err := item.object()
		if err != nil {
			return err
		}
		if err := f(own); err != nil {
			return err
		}
	}
	return nil
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
