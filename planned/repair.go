package planned

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// Repair puts back what CHECK of the steps misses and touches nothing that is right, in one pass. The
// requests are those of a CHECK. It returns what was wrong, also beside an error; then what this call made is undone, and
// what was wrong may be gone.
func (e *Engine) Repair(ctx context.Context, steps []Step) ([]netstate.Difference, error) {
	session, err := e.openPod(ctx, steps[0].Req)
	if err != nil {
		return nil, at(steps[0], "open", err)
	}
	defer session.Close()
	made, err := recordedStates(ctx, session, steps)
	if err != nil {
		return nil, err
	}
	var diffs []netstate.Difference
	for _, step := range steps {
		retaken, err := e.retake(ctx, step)
		diffs = append(diffs, retaken...)
		if err != nil {
			return diffs, at(step, "ipam", err)
		}
	}
	wrong, err := session.Diff(ctx, made.judged())
	diffs = append(diffs, wrong...)
	if err != nil || len(wrong) == 0 {
		return diffs, at(steps[0], "check", err)
	}
	r := newRepair(made.all(), wrong)
	if err := session.Remove(ctx, r.away, false); err != nil {
		return diffs, at(steps[0], "remove", err)
	}
	return diffs, at(steps[0], "apply", session.Apply(ctx, r.back))
}

// retake takes the leases again that an own IPAM plugin's CHECK misses. One of another, or without a store, is only checked.
func (e *Engine) retake(ctx context.Context, step Step) ([]netstate.Difference, error) {
	err := (&verbs{e, step.Def}).delegated(ctx, step.Req, plugin.Plugin.Check)
	missing, ok := errors.AsType[*DifferencesError](err)
	if !ok {
		return nil, err
	}
	delegate, err := e.ipam(step.Req)
	if err != nil {
		return nil, err
	}
	own, ok := delegate.(*ipamVerbs)
	if !ok || own.def.store == nil {
		return nil, missing
	}
	return missing.Differences, own.retake(ctx, step.Req)
}

// retake reserves the addresses of prevResult once more. What the owner still holds of several is released
// first, since a reservation is all or nothing; should another be faster in between, that is the error.
func (v *ipamVerbs) retake(ctx context.Context, req *plugin.Request) error {
	a, err := v.def.ipam(req)
	if err != nil {
		return err
	}
	a.Pool.Want = nil
	for _, l := range wantedLeases(a.Pool, req) {
		a.Pool.Want = append(a.Pool.Want, l.Addr)
	}
	owner := req.Owner()
	held, err := v.engine.leases.Held(ctx, a.Pool, owner)
	if err != nil {
		return err
	}
	if len(held) > 0 {
		if err := v.engine.leases.Release(ctx, a.Pool, owner); err != nil {
			return err
		}
	}
	_, err = v.engine.leases.Reserve(ctx, a.Pool, owner, false)
	if !errors.Is(err, netstate.ErrExist) {
		return err
	}
	// A store that was lost as a whole brings back the leases of those who live, and so this one, when it is used again.
	held, heldErr := v.engine.leases.Held(ctx, a.Pool, owner)
	if heldErr == nil && holdsAll(held, a.Pool.Want) {
		return nil
	}
	return errors.Join(err, heldErr)
}

func holdsAll(held []netstate.Lease, want []netip.Addr) bool {
	for _, a := range want {
		if !slices.ContainsFunc(held, func(l netstate.Lease) bool { return l.Addr == a }) {
			return false
		}
	}
	return true
}

// repair is what has to go and what has to come.
type repair struct {
	want       netstate.State
	diffs      map[string]netstate.Difference // by object
	away, back netstate.State
}

func newRepair(want netstate.State, diffs []netstate.Difference) *repair {
	r := &repair{want: want, diffs: map[string]netstate.Difference{}}
	r.away.Owner, r.back.Owner = want.Owner, want.Owner
	for _, d := range diffs {
		r.diffs[d.Object] = d
	}
	r.links()
	r.tables()
	for _, s := range want.Sysctls {
		if _, wrong := r.wrong(s); wrong || r.ofNewLink(s) {
			r.back.Sysctls = append(r.back.Sysctls, s)
		}
	}
	r.addrs()
	var back []netstate.Route
	r.away.Routes, back = split(r, want.Routes)
	r.back.Routes = append(r.back.Routes, back...) // after those that their gateways need
	r.away.Rules, r.back.Rules = split(r, want.Rules)
	r.away.Neighbours, r.back.Neighbours = split(r, want.Neighbours)
	r.away.Qdiscs, r.back.Qdiscs = split(r, want.Qdiscs)
	r.away.Filters, r.back.Filters = split(r, want.Filters)
	r.iptables()
	_, r.back.Sources = split(r, want.Sources) // one that is there is there in no other form
	return r
}

// iptables: an apply leaves what is there as it is, so that everything is said if anything is wrong.
func (r *repair) iptables() {
	wrong := func(o netstate.Object) bool { _, wrong := r.wrong(o); return wrong }
	if slices.ContainsFunc(r.want.IptablesChains, func(c netstate.IptablesChain) bool { return wrong(c) }) ||
		slices.ContainsFunc(r.want.IptablesRules, func(o netstate.IptablesRule) bool { return wrong(o) }) {
		r.back.IptablesChains, r.back.IptablesRules = r.want.IptablesChains, r.want.IptablesRules
	}
}

// wrong returns the difference about an object.
func (r *repair) wrong(o netstate.Object) (netstate.Difference, bool) {
	d, ok := r.diffs[o.Key()]
	return d, ok
}

// split sorts the objects that are wrong: all have to come, and one that is there in another form has to
// go first.
func split[T netstate.Object](r *repair, want []T) (away, back []T) {
	for _, o := range want {
		d, wrong := r.wrong(o)
		if !wrong {
			continue
		}
		back = append(back, o)
		if d.Have != "" {
			away = append(away, o)
		}
	}
	return away, back
}

// addrs: one that lost but the route to its subnet keeps what else depends on it, and only gets that route.
func (r *repair) addrs() {
	away, back := split(r, r.want.Addrs)
	lost := func(a netstate.Addr) bool {
		without := a
		without.NoPrefixRoute = true
		d, _ := r.wrong(a)
		return !a.NoPrefixRoute && d.Have == without.String()
	}
	for _, a := range back {
		if rt, _ := a.SubnetRoute(); lost(a) {
			// The kernel makes it too, when it sets the link up.
			rt.Shared, rt.Connected = true, false
			r.back.Routes = append(r.back.Routes, rt)
		}
	}
	r.away.Addrs = slices.DeleteFunc(away, lost)
	r.back.Addrs = slices.DeleteFunc(back, lost)
}

// links: one that is there is adjusted, one that is missing is made. The ends of a veth come and go together, so
// one that is left alone, because the pod renamed or moved the other, goes first.
func (r *repair) links() {
	for _, l := range r.want.Links {
		d, wrong := r.wrong(l)
		lone := r.lostPeer(l)
		switch {
		case lone && !l.Shared:
			r.away.Links = append(r.away.Links, l)
			r.back.Links = append(r.back.Links, l)
		case wrong && d.Have != "" && !l.Shared:
			l.Kind, l.Peer = "", ""
			r.back.Links = append(r.back.Links, l)
		case wrong:
			r.back.Links = append(r.back.Links, l)
		}
	}
}

// ofNewLink reports whether a sysctl is one of a link that is made anew: it begins with what the kernel gives every link, and was not
// found wrong while there was none.
func (r *repair) ofNewLink(s netstate.Sysctl) bool {
	return slices.ContainsFunc(r.back.Links, func(l netstate.Link) bool {
		return l.Kind != "" && l.Place == s.Place && strings.Contains(s.Name, "/"+l.Name+"/")
	})
}

// lostPeer reports whether the other end of a veth is missing.
func (r *repair) lostPeer(l netstate.Link) bool {
	return l.Kind == "veth" && slices.ContainsFunc(r.want.Links, func(o netstate.Link) bool {
		d, wrong := r.wrong(o)
		return o.Kind == "veth" && o.Name == l.Peer && o.Place == l.PeerPlace && wrong && d.Have == ""
	})
}

// tables: an nft table with anything missing is stated whole, since what is there of it is kept; so are its
// elements.
func (r *repair) tables() {
	for _, t := range r.want.Tables {
		wrong := slices.ContainsFunc(t.Objects(), func(o netstate.Object) bool { _, w := r.wrong(o); return w })
		wrong = wrong || slices.ContainsFunc(r.want.Elements, func(e netstate.Element) bool {
			_, w := r.wrong(e)
			return w && e.Family == t.Family && e.Table == t.Name
		})
		if wrong {
			r.back.Tables = append(r.back.Tables, t)
		}
	}
	for _, e := range r.want.Elements {
		if _, wrong := r.wrong(e); wrong {
			r.back.Elements = append(r.back.Elements, e)
		}
	}
}
