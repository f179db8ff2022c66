package netstate

// The kernel's numbers of routing.
const (
	DefaultTable = 253
	MainTable    = 254
	LocalTable   = 255
	ScopeLink    = 253

	metric6          = 1024 // of an IPv6 route that asks for none
	metric6Connected = 256  // of one that the kernel makes with an address
)

// InTable is the number of the table that the route is in.
func (o Route) InTable() int {
	if o.Table == 0 {
		return MainTable
	}
	return o.Table
}

// Metric is the priority as the kernel keeps it.
func (o Route) Metric() int {
	if o.Priority == 0 && o.Dst.Addr().Is6() {
		return metric6
	}
	return o.Priority
}

// SubnetRoute is the route that the kernel makes with the address, and whether there is one: a single address has none.
func (o Addr) SubnetRoute() (Route, bool) {
	rt := Route{Place: o.Place, Dst: o.Prefix.Masked(), Dev: o.Dev, Connected: true}
	if o.Prefix.Addr().Is6() {
		rt.Priority = metric6Connected
	} else {
		rt.Src, rt.Scope = o.Prefix.Addr(), ScopeLink
	}
	return rt, !o.NoPrefixRoute && !o.Absent && !o.Prefix.IsSingleIP()
}

// sameWay reports whether two routes lead to one destination over one link with one priority in one table.
func (o Route) sameWay(r Route) bool {
	return o.Place == r.Place && o.Dst == r.Dst && o.Dev == r.Dev && o.InTable() == r.InTable() && o.Metric() == r.Metric()
}
