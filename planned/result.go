package planned

import (
	"cmp"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// mergeResult is the result after a plugin: prevResult with what the plugin adds
// (specification, section 5, "Add Success": prevResult is passed through or modified, never dropped).
func mergeResult(req *plugin.Request, p Plan) *cni.Result {
	add := p.Result
	res := &cni.Result{}
	if req.Prev != nil {
		res = req.Prev.Clone()
	}
	res.CNIVersion = req.Conf.CNIVersion
	for i := range res.Interfaces {
		if dev := &res.Interfaces[i]; dev.Name == req.IfName && dev.Sandbox != "" {
			dev.MAC, dev.MTU = cmp.Or(p.Interface.MAC, dev.MAC), cmp.Or(p.Interface.MTU, dev.MTU)
		}
	}
	if add == nil {
		return res
	}
	add = add.Clone()
	base := len(res.Interfaces)
	res.Interfaces = append(res.Interfaces, add.Interfaces...)
	for _, ip := range add.IPs {
		if ip.Interface.Set {
			ip.Interface.Value += base
		}
		res.IPs = append(res.IPs, ip)
	}
	res.Routes = append(res.Routes, add.Routes...)
	if !add.DNS.IsZero() {
		res.DNS = add.DNS
	}
	return res
}

// recalled is what IPAM gave at ADD, read back from prevResult: the addresses of the request's
// interface in the container, with routes and DNS. Nil if prevResult has no such address.
func recalled(req *plugin.Request) *cni.Result {
	if req.Prev == nil {
		return nil
	}
	res := &cni.Result{CNIVersion: req.Prev.CNIVersion, Routes: req.Prev.Routes, DNS: req.Prev.DNS}
	for _, ip := range req.Prev.IPs {
		if ip.Interface.Set && !isContainers(req, ip.Interface.Value) {
			continue
		}
		ip.Interface = cni.Opt[int]{}
		res.IPs = append(res.IPs, ip)
	}
	if len(res.IPs) == 0 {
		return nil
	}
	return res
}

// isContainers reports whether interface i of prevResult is the request's, in the container. A
// middle plugin may have dropped the sandbox; its name then decides.
func isContainers(req *plugin.Request, i int) bool {
	return i >= 0 && i < len(req.Prev.Interfaces) && req.Prev.Interfaces[i].Name == req.IfName
}

// asRecorded is a plan's state as prevResult records it, which is what CHECK is about, also when a later plugin of the
// list changed it: the MAC and MTU of the container's link, and of the routes that the plan's result lists those that are still listed.
func asRecorded(p Plan, req *plugin.Request) netstate.State {
	s := p.State
	if p.Result != nil {
		s.Routes = slices.DeleteFunc(slices.Clone(s.Routes), func(r netstate.Route) bool {
			return r.Place == netstate.Pod && lists(p.Result.Routes, r) && !lists(req.Prev.Routes, r)
		})
	}
	i := slices.IndexFunc(s.Links, func(l netstate.Link) bool { return l.Place == netstate.Pod && l.Name == req.IfName })
	if i < 0 {
		return s
	}
	for _, have := range req.Prev.Interfaces {
		if have.Name != req.IfName {
			continue
		}
		s.Links = slices.Clone(s.Links)
		if have.MAC != "" {
			s.Links[i].MAC = have.MAC
		}
		if have.MTU != 0 {
			s.Links[i].MTU = have.MTU
		}
	}
	return s
}

// lists reports whether a result's routes have the one of a state.
func lists(routes []cni.Route, r netstate.Route) bool {
	return slices.ContainsFunc(routes, func(l cni.Route) bool { return l.Dst.Masked() == r.Dst && l.Table.Value == r.Table })
}

// withRecorded lets the pod's links be known by the host's interfaces that prevResult names, so that what
// another's plugin attached can be detached.
func withRecorded(s netstate.State, req *plugin.Request) netstate.State {
	if req.Prev == nil {
		return s
	}
	var onHost []string
	for _, have := range req.Prev.Interfaces {
		if have.Sandbox == "" {
			onHost = append(onHost, have.Name)
		}
	}
	s.Links = slices.Clone(s.Links)
	for i := range s.Links {
		if s.Links[i].Place == netstate.Pod {
			s.Links[i].Recorded = onHost
		}
	}
	return s
}
