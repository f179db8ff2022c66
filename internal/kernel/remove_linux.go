package kernel

import (
	"context"
	"errors"
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// removal is one Remove under way.
type removal struct {
	*work
	state  netstate.State
	doomed []*device             // links to delete
	going  map[netstate.Ref]bool // doomed links, and pod ends that go with them
	places []netstate.Place      // where there is something to do
}

// Remove removes what of st belongs to its owner: the host's ends go down first, then nft, then what stands on links
// that stay, then the links. Shared objects and links of kind "" stay, and sysctls keep their values; what is
// missing is success. Independent steps go on after an error. With sweep also the elements of the
// tables go that carry the owner's mark and are not in st.
//
// A link on the host is removed only if its alias has the owner's mark. A pod's end goes with it; it is deleted by
// itself only if the host's end is not there. In a session without a pod, or with the host's own
// namespace as one, nothing in the pod is looked at.
func (s *Session) Remove(ctx context.Context, st netstate.State, sweep bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r := &removal{work: s.begin(), state: st, going: map[netstate.Ref]bool{}, places: []netstate.Place{netstate.Host}}
	defer r.end()
	clear(s.seen)
	if s.pod != nil && s.pod != s.k.host {
		r.places = append(r.places, netstate.Pod)
	}
	if err := r.refuseNewer(ctx); err != nil {
		return err
	}
	var errs []error
	for _, step := range []func(context.Context) error{
		r.find, r.shut, func(ctx context.Context) error { return r.removeRules(ctx, sweep) }, r.removeIptables, r.removeSources,
		r.clearAll, r.deleteLinks,
	} {
		if err := context.Cause(ctx); err != nil { // each step to come would say the same
			if errors.Join(errs...) == nil {
				errs = append(errs, err)
			}
			break
		}
		errs = append(errs, step(ctx))
	}
	addrs, flows := byOwner(st.Flows)
	s.k.forgetFlows(ctx, flows)
	s.k.forgetOwner(ctx, addrs, true)
	return errors.Join(errs...)
}

func (r *removal) clearAll(ctx context.Context) error {
	var errs []error
	for _, p := range r.places {
		errs = append(errs, r.clear(ctx, p))
	}
	return errors.Join(errs...)
}

// find decides which links go.
func (r *removal) find(ctx context.Context) error {
	var errs []error
	for _, p := range r.places { // the host's first: they decide about the pod's
		for i := range r.state.Links {
			l := &r.state.Links[i]
			if l.Place != p || l.Shared || l.Kind == "" {
				continue
			}
			find := r.findHost
			if p == netstate.Pod {
				find = r.findPod
			}
			errs = append(errs, find(ctx, l))
		}
	}
	return errors.Join(errs...)
}

func (r *removal) findHost(ctx context.Context, l *netstate.Link) error {
	d, err := r.device(ctx, l.Ref())
	if errors.Is(err, netstate.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if d.kind == l.Kind && ours(d, r.state.Owner) {
		r.doom(d)
		if o := findPeer(r.state.Links, l); o != nil && l.Kind == kindVeth {
			r.going[o.Ref()] = true
		}
	}
	return nil
}

func (r *removal) findPod(ctx context.Context, l *netstate.Link) error {
	if r.going[l.Ref()] {
		return nil
	}
	if l.Kind == kindVeth {
		if o := findPeer(r.state.Links, l); o != nil && r.devices[o.Ref()] != nil {
			return nil // the host's end is there and not ours: neither is this one
		}
	}
	d, err := r.lookup(ctx, l.Ref())
	if errors.Is(err, netstate.ErrNotExist) {
		return nil
	}
	if err != nil || d.kind != l.Kind {
		return err
	}
	foreign, err := r.foreignPeer(ctx, l, d)
	if err == nil && !foreign {
		r.doom(d)
	}
	return err
}

// foreignPeer reports whether the other end of the pod's veth d is a link on the host that is not the owner's: then
// d is not either, though it has the name.
func (r *removal) foreignPeer(ctx context.Context, l *netstate.Link, d *device) (bool, error) {
	if l.Kind != kindVeth {
		return false, nil
	}
	c, err := r.conn(netstate.Host)
	if err != nil {
		return false, err
	}
	peer, err := c.linkByIndex(ctx, netstate.Host, d.peer)
	if errors.Is(err, netstate.ErrNotExist) {
		return false, nil
	}
	if err != nil || peer.kind != kindVeth || peer.peer != d.index || ours(peer, r.state.Owner) {
		return false, err
	}
	if peer.alias == "" && slices.Contains(l.Recorded, peer.name) {
		return false, nil
	}
	return r.peerInPod(ctx, peer)
}

func (r *removal) doom(d *device) {
	r.doomed = append(r.doomed, d)
	r.going[d.ref()] = true
}

func (r *removal) doomedIn(p netstate.Place) []*device {
	return slices.DeleteFunc(slices.Clone(r.doomed), func(d *device) bool { return d.place != p })
}

// shut takes the host's ends down, so that no packet passes while the rest goes.
func (r *removal) shut(ctx context.Context) error {
	return r.send(ctx, netstate.Host, setDown(r.doomedIn(netstate.Host)))
}

// send runs a batch whose requests do not depend on each other.
func (w *work) send(ctx context.Context, p netstate.Place, b batch) error {
	if len(b) == 0 {
		return nil
	}
	c, err := w.conn(p)
	if err != nil {
		return err
	}
	return runAll(ctx, c, b)
}

func (r *removal) removeRules(ctx context.Context, sweep bool) error {
	if len(r.state.Tables)+len(r.state.Elements) == 0 {
		return nil
	}
	rs, err := r.s.k.ruleset()
	if err == nil {
		err = rs.remove(ctx, r.state, sweep)
	}
	return r.s.k.nothingWithoutNFTables(ctx, err)
}

// clear removes what belongs to the owner and does not go with a link.
func (r *removal) clear(ctx context.Context, p netstate.Place) error {
	var (
		b    batch
		errs []error
	)
	// on gives the link that an object stands on: nil if it is not there, goes anyway, or has only its name in common with
	// the one that the state would make.
	on := func(dev string) *device {
		ref := netstate.Ref{Place: p, Name: dev}
		if r.going[ref] || r.makes(ref) {
			return nil
		}
		d, err := r.device(ctx, ref)
		if err != nil && !errors.Is(err, netstate.ErrNotExist) {
			errs = append(errs, err)
		}
		return d
	}
	if p == netstate.Host {
		b = append(b, r.forgetNeighbours(on)...)
	}
	for i := range r.state.Filters {
		if f := &r.state.Filters[i]; f.Place == p {
			if d := on(f.Dev); d != nil {
				b = append(b, deleteFilter(f, d.index))
			}
		}
	}
	for i := range r.state.Qdiscs {
		if q := &r.state.Qdiscs[i]; q.Place == p {
			if d := on(q.Dev); d != nil {
				b = append(b, deleteQdisc(q, d.index))
			}
		}
	}
	for i := range r.state.Neighbours {
		if n := &r.state.Neighbours[i]; n.Place == p {
			if d := on(n.Dev); d != nil {
				b = append(b, deleteNeighbour(n, d.index))
			}
		}
	}
	for i := range r.state.Rules {
		if rl := &r.state.Rules[i]; rl.Place == p && !rl.Shared {
			b = append(b, deleteRule(rl))
		}
	}
	for i := range r.state.Routes {
		if rt := &r.state.Routes[i]; rt.Place == p && !rt.Shared && !rt.Absent {
			if d := on(rt.Dev); d != nil || rt.Dev == "" {
				b = append(b, deleteRoute(rt, deviceIndex(d)))
			}
		}
	}
	for i := range r.state.Addrs {
		if a := &r.state.Addrs[i]; a.Place == p && !a.Shared && !a.Absent {
			if d := on(a.Dev); d != nil {
				b = append(b, deleteAddr(a, d.index))
			}
		}
	}
	return errors.Join(append(errs, r.send(ctx, p, b))...)
}

// makes reports whether the state makes the link for its owner alone.
func (r *removal) makes(ref netstate.Ref) bool {
	return slices.ContainsFunc(r.state.Links, func(l netstate.Link) bool {
		return l.Ref() == ref && l.Kind != "" && !l.Shared
	})
}

func (r *removal) deleteLinks(ctx context.Context) error {
	var errs []error
	for _, p := range r.places {
		sp, err := r.s.space(p)
		if err == nil {
			err = sp.deleteLinks(ctx, r.doomedIn(p)...)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
