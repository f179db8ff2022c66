package cni

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
)

// Encode writes the result in a specification version, on one line. What that version can't
// hold is left out, as the field's converters do: below 1.0.0 an interface's
// mtu, socketPath and pciID; below 0.3.0 interfaces, all but the first address of each
// family, and of routes all but destination and gateway. (1.0.0 keeps the three though 1.1.0 brought
// them: the field's types write both versions alike.) A result without an address has no form below
// 0.3.0, an error with code 1. Below 1.0.0 dns is always there, from 1.0.0 on if it
// isn't empty. Extra members follow after the others, unless the version has a key of
// that name.
func (r *Result) Encode(version string) ([]byte, error) {
	v, err := r.versionFor(version)
	if err != nil {
		return nil, err
	}
	f := formOf(v)
	var o Object
	o.Set("cniVersion", quote(v))
	if f == formFamilies {
		r.encodeFamilies(&o)
	} else {
		r.encodeLists(&o, f)
	}
	if !r.DNS.IsZero() || f < formCurrent {
		o.Set("dns", r.DNS.encode())
	}
	setExtra(&o, r.Extra, f.resultKeys())
	return o.Bytes(), nil
}

// Encodable returns the error that [Result.Encode] would.
func (r *Result) Encodable(version string) error {
	_, err := r.versionFor(version)
	return err
}

// versionFor is the version as it is written, if it can hold r.
func (r *Result) versionFor(version string) (string, error) {
	v, ok := spoken(version)
	if !ok {
		return "", notSpoken("encode result: version", version)
	}
	if err := r.check(); err != nil {
		return "", Errorf(CodeInternal, "encode result: %w", err)
	}
	if formOf(v) == formFamilies && len(r.IPs) == 0 {
		return "", Errorf(CodeIncompatibleVersion, "encode result: version %s can't hold a result without an address", v).
			WithHint("use version 0.3.0 or newer")
	}
	return v, nil
}

// check finds what no version can hold.
func (r *Result) check() error {
	for i, ip := range r.IPs {
		if !plainPrefix(ip.Address).IsValid() {
			return Errorf(CodeInternal, "ips[%d]: no address", i)
		}
		if n := ip.Interface; n.Set && (n.Value < 0 || n.Value >= len(r.Interfaces)) {
			return Errorf(CodeInternal, "ips[%d]: %d is not the index of one of the %d interfaces", i, n.Value, len(r.Interfaces))
		}
	}
	for i, route := range r.Routes {
		if !plainPrefix(route.Dst).IsValid() {
			return Errorf(CodeInternal, "routes[%d]: no destination", i)
		}
	}
	return nil
}

func (r *Result) encodeLists(o *Object, f form) {
	setList(o, "interfaces", r.Interfaces, func(i Interface) *Object { return i.encode(f) })
	setList(o, "ips", r.IPs, func(ip IP) *Object { return ip.encode(f) })
	setList(o, "routes", r.Routes, Route.encode)
}

func (r *Result) encodeFamilies(o *Object) {
	for _, family := range []struct {
		key string
		is4 bool
	}{{"ip4", true}, {"ip6", false}} {
		i := slices.IndexFunc(r.IPs, func(ip IP) bool { return is4(ip.Address) == family.is4 })
		if i < 0 {
			continue
		}
		ip := r.IPs[i]
		var own Object
		setPrefix(&own, "ip", ip.Address)
		setAddr(&own, "gateway", ip.Gateway)
		var routes []Route
		for _, route := range r.Routes {
			if is4(route.Dst) == family.is4 {
				routes = append(routes, Route{Dst: route.Dst, GW: route.GW, Extra: route.Extra})
			}
		}
		setList(&own, "routes", routes, Route.encode)
		setExtra(&own, ip.Extra, formFamilies.ipKeys())
		o.Set(family.key, own.Bytes())
	}
}

func (i Interface) encode(f form) *Object {
	var o Object
	o.Set("name", quote(i.Name))
	setString(&o, "mac", i.MAC)
	if f == formCurrent {
		setNumber(&o, "mtu", i.MTU)
	}
	setString(&o, "sandbox", i.Sandbox)
	if f == formCurrent {
		setString(&o, "socketPath", i.SocketPath)
		setString(&o, "pciID", i.PCIID)
	}
	setExtra(&o, i.Extra, f.interfaceKeys())
	return &o
}

func (ip IP) encode(f form) *Object {
	var o Object
	if f < formCurrent {
		family := "6"
		if is4(ip.Address) {
			family = "4"
		}
		o.Set("version", quote(family))
	}
	setOpt(&o, "interface", ip.Interface)
	setPrefix(&o, "address", ip.Address)
	setAddr(&o, "gateway", ip.Gateway)
	setExtra(&o, ip.Extra, f.ipKeys())
	return &o
}

func (r Route) encode() *Object {
	var o Object
	setPrefix(&o, "dst", r.Dst)
	setAddr(&o, "gw", r.GW)
	setNumber(&o, "mtu", r.MTU)
	setNumber(&o, "advmss", r.AdvMSS)
	setNumber(&o, "priority", r.Priority)
	setOpt(&o, "table", r.Table)
	setOpt(&o, "scope", r.Scope)
	setExtra(&o, r.Extra, routeKeys())
	return &o
}

func (d DNS) encode() json.RawMessage {
	var o Object
	setStrings(&o, "nameservers", d.Nameservers)
	setString(&o, "domain", d.Domain)
	setStrings(&o, "search", d.Search)
	setStrings(&o, "options", d.Options)
	setExtra(&o, d.Extra, dnsKeys())
	return o.Bytes()
}

func is4(p netip.Prefix) bool { return p.Addr().Unmap().Is4() }

func setList[T any](o *Object, key string, items []T, encode func(T) *Object) {
	parts := make([][]byte, len(items))
	for i, item := range items {
		parts[i] = encode(item).Bytes()
	}
	setParts(o, key, parts)
}

func setStrings(o *Object, key string, values []string) {
	parts := make([][]byte, len(values))
	for i, value := range values {
		parts[i] = quote(value)
	}
	setParts(o, key, parts)
}

// setParts sets a list of encoded elements, if there are any.
func setParts(o *Object, key string, parts [][]byte) {
	if len(parts) > 0 {
		o.Set(key, slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]")))
	}
}

func setString(o *Object, key, value string) {
	if value != "" {
		o.Set(key, quote(value))
	}
}

func setNumber(o *Object, key string, value int) {
	setOpt(o, key, Opt[int]{Value: value, Set: value != 0})
}

func setOpt(o *Object, key string, value Opt[int]) {
	if value.Set {
		o.Set(key, strconv.AppendInt(nil, int64(value.Value), 10))
	}
}

func setPrefix(o *Object, key string, p netip.Prefix) {
	o.Set(key, quote(plainPrefix(p).String()))
}

func setAddr(o *Object, key string, a netip.Addr) {
	if a.IsValid() {
		o.Set(key, quote(a.Unmap().WithZone("").String()))
	}
}

func setExtra(o *Object, extra []Member, known []string) {
	for _, m := range extra {
		if !slices.Contains(known, m.Key) {
			o.Set(m.Key, m.Value)
		}
	}
}
