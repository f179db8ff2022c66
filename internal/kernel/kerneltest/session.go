package kerneltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// session acts in the host's namespace and in one pod's; pod is noID without one.
type session struct {
	m      *Memory
	pod    int
	closed bool
}

var _ planned.Session = (*session)(nil)

// begin locks the kernel for one call and returns what it works on. The caller calls end
// when there is no error.
func (s *session) begin(ctx context.Context) (x *transaction, end func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	s.m.mu.Lock()
	if s.closed {
		s.m.mu.Unlock()
		return nil, nil, fmt.Errorf("use session: %w", os.ErrClosed)
	}
	return &transaction{w: s.m.spaces, pod: s.pod, paths: s.m.paths, fault: s.m.fault, done: map[string]bool{}, firewalld: s.m.firewalld},
		s.m.mu.Unlock, nil
}

// Close implements planned.Session. A second Close does nothing.
func (s *session) Close() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.m.opened[s.pod]--
	if s.pod != noID {
		s.m.reap(s.pod)
	}
	return nil
}

// Observe implements planned.Session.
func (s *session) Observe(ctx context.Context, q netstate.Query) (netstate.Facts, error) {
	x, end, err := s.begin(ctx)
	if err != nil {
		return netstate.Facts{}, fmt.Errorf("observe: %w", err)
	}
	defer end()
	if err := x.fault("observe"); err != nil {
		return netstate.Facts{}, fmt.Errorf("observe: %w", err)
	}
	var f netstate.Facts
	for _, ref := range q.Links {
		sp, err := x.space(ref.Place)
		if err != nil {
			return netstate.Facts{}, fmt.Errorf("observe link %s: %w", ref.Name, err)
		}
		if _, ok := sp.links[ref.Name]; !ok {
			continue
		}
		f.Links = append(f.Links, x.observed(ref.Place, ref.Name))
		for _, a := range sp.addrs {
			if a.Dev == ref.Name {
				a.Place = ref.Place
				f.Addrs = append(f.Addrs, a)
			}
		}
		if peer := sp.links[ref.Name].peer; q.Peers && ref.Place == netstate.Pod && peer.id == hostID {
			l := &f.Links[len(f.Links)-1]
			l.Peer, l.PeerPlace = peer.name, netstate.Host
			f.Links = append(f.Links, x.observed(netstate.Host, peer.name))
		}
	}
	x.observeRouting(q.Routing, &f)
	for _, v := range q.Sysctls {
		sp, err := x.space(v.Place)
		if err != nil {
			return netstate.Facts{}, fmt.Errorf("observe sysctl %s: %w", v.Name, err)
		}
		if sp.hasSysctl(v.Name) {
			v.Value = cmp.Or(sp.sysctls[v.Name], "0")
			f.Sysctls = append(f.Sysctls, v)
		}
	}
	f.NoNFTables = q.NFTables && s.m.noNFT
	f.Firewalld = q.Firewalld && s.m.firewalld
	if q.PodID && x.pod != noID {
		f.PodID = strconv.Itoa(x.pod)
	}
	for _, e := range q.Elements {
		if have, ok := first(x.w[hostID].elements, func(o netstate.Element) bool { return sameElement(e, o) }); ok && have.Owner == e.Owner {
			f.Elements = append(f.Elements, e)
		}
	}
	for _, family := range []string{"ip", "ip6"} {
		uses := func(r netstate.IptablesRule) bool {
			return r.Family == family && r.Table == "filter" && r.Chain == "FORWARD"
		}
		if q.Forward && slices.ContainsFunc(x.w[hostID].iptRules, uses) {
			f.Forward = append(f.Forward, family)
		}
	}
	if q.WantsUplink(f) {
		if dev := x.w[hostID].uplink(); dev != "" {
			f.Uplink = x.seen(netstate.Host, dev)
		}
	}
	return f, nil
}

// observed is a link with all that Linux tells of it.
func (x *transaction) observed(p netstate.Place, name string) netstate.Link {
	l := x.seen(p, name)
	l.AllMulti, l.TxQLen = cmp.Or(l.AllMulti, netstate.Off), cmp.Or(l.TxQLen, defaultTxQLen)
	return l
}

// defaultTxQLen is that of a veth.
const defaultTxQLen = 1000

// uplink is the interface of the default route, IPv4 first, of the lowest metric.
func (s *space) uplink() string {
	var best *netstate.Route
	for i, r := range s.routes {
		if r.Dst.Bits() != 0 || r.InTable() != netstate.MainTable {
			continue
		}
		if best == nil || less(r, *best) {
			best = &s.routes[i]
		}
	}
	if best == nil {
		return ""
	}
	return best.Dev
}

func less(a, b netstate.Route) bool {
	if a4, b4 := a.Dst.Addr().Is4(), b.Dst.Addr().Is4(); a4 != b4 {
		return a4
	}
	return a.Priority < b.Priority
}

// Apply implements planned.Session.
func (s *session) Apply(ctx context.Context, want netstate.State) error {
	x, end, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	defer end()
	if err := errors.Join(check(want), x.checkPods(want)); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if err := s.m.lacking(want); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	x.owner, x.links = want.Owner, want.Links
	x.w = s.copies()
	err = x.apply(want)
	if err != nil {
		// What is shared belongs to nobody from the moment it is there, and stays.
		kept := &transaction{w: s.copies(), pod: s.pod, fault: noFault}
		kept.replay(want, x)
		s.m.spaces = kept.w
		return fmt.Errorf("apply: %w", err)
	}
	s.m.spaces = x.w
	return nil
}

// copies is the world with namespaces of the session that can be changed without harm.
func (s *session) copies() world {
	w := maps.Clone(s.m.spaces)
	for _, id := range []int{hostID, s.pod} {
		if id != noID {
			w[id] = s.m.spaces[id].clone()
		}
	}
	return w
}

// Diff implements planned.Session.
func (s *session) Diff(ctx context.Context, want netstate.State) ([]netstate.Difference, error) {
	x, end, err := s.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	defer end()
	if err := errors.Join(x.fault("diff"), check(want)); err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	x.owner = want.Owner
	return x.diff(want)
}

// Remove implements planned.Session.
func (s *session) Remove(ctx context.Context, want netstate.State, sweep bool) error {
	x, end, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	defer end()
	x.owner = want.Owner
	if err := x.remove(want, sweep); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
