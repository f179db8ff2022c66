package kerneltest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// transaction is one call at work. Its methods that make an object return the error of the
// kernel alone; each adds verb and object.
type transaction struct {
	w     world
	pod   int
	paths map[string]int
	owner netstate.Owner
	fault func(step string) error
	// fresh are the ends of veth pairs that were made as peers and not yet stated themselves.
	fresh []end
	done  map[string]bool // the keys of the objects that were made
	links []netstate.Link // of the state
	// discarded are the links of earlier attempts that are gone also if this one fails.
	discarded []end
	firewalld bool // it runs
}

func (x *transaction) id(p netstate.Place) int {
	if p == netstate.Host {
		return hostID
	}
	return x.pod
}

func (x *transaction) space(p netstate.Place) (*space, error) {
	if p != netstate.Host && p != netstate.Pod {
		return nil, fmt.Errorf("unknown place %q", p)
	}
	s, ok := x.w[x.id(p)]
	if !ok {
		return nil, fmt.Errorf("no namespace of a pod is open: %w", netstate.ErrNotNamespace)
	}
	return s, nil
}

// checkPods refuses objects of a pod if there is none.
func (x *transaction) checkPods(want netstate.State) error {
	for _, o := range want.Objects() {
		if _, err := x.space(netstate.PlaceOf(o)); err != nil {
			return &netstate.ObjectError{Object: o.Key(), Err: err}
		}
	}
	return nil
}

// apply makes the objects of a state in the order that the kernel needs: links, down, what goes
// onto them, then up, then what needs links that are up. The order of the steps among each other is not
// the real kernel's in every case, and nobody can tell: all is made at once.
func (x *transaction) apply(want netstate.State) error {
	early, late := splitSysctls(want.Sysctls)
	present := slices.DeleteFunc(slices.Clone(want.Routes), func(r netstate.Route) bool { return r.Absent })
	absent := slices.DeleteFunc(slices.Clone(want.Routes), func(r netstate.Route) bool { return !r.Absent })
	for _, step := range []func() error{
		func() error { return each(x, "make", want.Links, x.makeLink) },
		func() error { return each(x, "make", early, x.makeSysctl) },
		func() error { return each(x, "make", want.Addrs, x.makeAddr) },
		func() error { return each(x, "make", want.Qdiscs, x.makeQdisc) },
		func() error { return each(x, "make", want.Filters, x.makeFilter) },
		func() error { return each(x, "up", want.Links, x.up) },
		func() error { return each(x, "make", present, x.makeRoute) },
		func() error { return each(x, "make", absent, x.dropRoute) },
		func() error { return each(x, "make", want.Rules, x.makeRule) },
		func() error { return each(x, "make", want.Neighbours, x.makeNeighbour) },
		func() error { return each(x, "make", late, x.makeSysctl) },
		func() error { return each(x, "make", want.Tables, x.makeTable) },
		func() error {
			return each(x, "make", want.Elements, func(e netstate.Element) error { return x.makeElement(want, e) })
		},
		func() error {
			return each(x, "make", want.IptablesChains, func(c netstate.IptablesChain) error { return x.makeIptablesChain(want, c) })
		},
		func() error {
			return each(x, "make", want.IptablesRules, func(r netstate.IptablesRule) error { return x.makeIptablesRule(want, r) })
		},
		func() error { return each(x, "make", want.Sources, x.bindSource) },
		func() error { return each(x, "make", want.Flows, func(netstate.Flow) error { return nil }) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// replay makes the shared ones among the objects that were made before. What hung on an object
// that is undone goes with it, so that errors mean nothing here.
func (x *transaction) replay(want netstate.State, failed *transaction) {
	made := failed.done
	for _, e := range failed.discarded {
		x.discard(e, x.w[e.id].links[e.name].peer)
	}
	for _, l := range want.Links {
		if l.Shared && made[l.Key()] && x.makeLink(l) == nil {
			_ = x.up(l)
		}
	}
	for _, v := range want.Sysctls {
		if v.Shared && made[v.Key()] {
			_ = x.makeSysctl(v)
		}
	}
	for _, a := range want.Addrs {
		if a.Shared && !a.Absent && made[a.Key()] {
			_ = x.makeAddr(a)
		}
	}
	for _, r := range want.Routes {
		if r.Shared && made[r.Key()] {
			_ = x.makeRoute(r)
		}
	}
	for _, r := range want.Rules {
		if r.Shared && made[r.Key()] {
			_ = x.makeRule(r)
		}
	}
	x.replayIptables(want, made)
	for _, e := range want.Elements {
		if !made[e.Key()] {
			return // tables and elements are one nft transaction
		}
	}
	for _, t := range want.Tables {
		if made[t.Key()] {
			_ = x.makeTable(t)
		}
	}
}

func splitSysctls(all []netstate.Sysctl) (early, late []netstate.Sysctl) {
	for _, s := range all {
		if s.AfterUp {
			late = append(late, s)
		} else {
			early = append(early, s)
		}
	}
	return early, late
}

// each does one step on every object of a list, until one fails.
func each[T netstate.Object](x *transaction, verb string, list []T, do func(T) error) error {
	for _, o := range list {
		err := x.fault(verb + " " + o.Key())
		if err == nil {
			err = do(o)
		}
		if err != nil {
			return &netstate.ObjectError{Object: o.Key(), Err: fmt.Errorf("%s: %w", verb, err)}
		}
		x.done[o.Key()] = true
	}
	return nil
}

// dev returns the namespace of a link that must be there.
func (x *transaction) dev(p netstate.Place, name string) (*space, link, error) {
	s, err := x.space(p)
	if err != nil {
		return nil, link{}, err
	}
	l, ok := s.links[name]
	if !ok {
		return nil, link{}, fmt.Errorf("link %s: %w", name, netstate.ErrNotExist)
	}
	return s, l, nil
}

func (x *transaction) makeLink(l netstate.Link) error {
	s, err := x.space(l.Place)
	if err != nil {
		return err
	}
	have, there := s.links[l.Name]
	here := end{x.id(l.Place), l.Name}
	switch {
	case l.Kind == "" && !there:
		return netstate.ErrNotExist
	case l.Kind == "":
		return x.shape(s, l)
	case there && l.Kind == "veth" && slices.Contains(x.fresh, here):
		x.fresh = slices.DeleteFunc(x.fresh, func(e end) bool { return e == here })
		return x.shape(s, l)
	case there && l.Shared && have.Kind == l.Kind:
		return x.shape(s, l)
	case there && l.Shared:
		return fmt.Errorf("%w, and is no %s", netstate.ErrExist, l.Kind)
	case there && !x.leftBehind(l):
		return netstate.ErrExist
	case l.Kind == "veth":
		return x.makePair(s, l)
	}
	s.links[l.Name] = link{Link: netstate.Link{Name: l.Name, Kind: l.Kind, Down: true}, owner: x.ownerOf(l)}
	return x.shape(s, l)
}

func (x *transaction) ownerOf(l netstate.Link) netstate.Owner {
	if l.Shared {
		return netstate.Owner{}
	}
	return x.owner
}

// leftBehind reports whether the link of that name is the host's end of a veth that an attempt for the same owner
// left, in another pod than this.
func (x *transaction) leftBehind(l netstate.Link) bool {
	if l.Kind != "veth" || l.Place != netstate.Host || l.PeerPlace != netstate.Pod || !x.ours(l) {
		return false
	}
	have := x.w[hostID].links[l.Name]
	return have.Kind == "veth" && have.peer.id != x.pod
}

func (x *transaction) makePair(s *space, l netstate.Link) error {
	ref, mtu, err := x.peerOf(l)
	if err != nil {
		return err
	}
	o, err := x.space(ref.Place)
	if err != nil {
		return fmt.Errorf("peer %s: %w", ref.Name, err)
	}
	a, b := end{x.id(l.Place), l.Name}, end{x.id(ref.Place), ref.Name}
	if _, there := o.links[ref.Name]; there || a == b {
		return fmt.Errorf("peer %s: %w", ref.Name, netstate.ErrExist)
	}
	if old, there := s.links[l.Name]; there {
		x.discard(a, old.peer)
	}
	both := netstate.Link{Kind: "veth", MTU: cmp.Or(l.MTU, mtu, defaultMTU), Down: true}
	one, two := both, both
	one.Name, one.MAC, two.Name, two.MAC = l.Name, s.mac(l.Name), b.name, o.mac(b.name)
	s.links[l.Name] = link{Link: one, owner: x.ownerOf(l), peer: b}
	o.links[b.name] = link{Link: two, owner: x.ownerOf(l), peer: a}
	x.fresh = append(x.fresh, b)
	return x.shape(s, l)
}

// peerOf is the other end of a veth, with its MTU: the link of the state that l names or that names l, or
// else one that only l speaks of.
func (x *transaction) peerOf(l netstate.Link) (netstate.Ref, int, error) {
	here, there := l.Ref(), l.PeerRef()
	for _, o := range x.links {
		ref := netstate.Ref{Place: o.Place, Name: o.Name}
		if o.Kind == "veth" && ref != here && (l.Peer != "" && there == ref || o.Peer != "" && o.PeerRef() == here) {
			return ref, o.MTU, nil
		}
	}
	if l.Peer == "" {
		return there, 0, errors.New("a veth needs a peer")
	}
	return there, 0, nil
}

// discard deletes what an earlier attempt left, in this world and in whatever this transaction leaves if it fails.
func (x *transaction) discard(here, peer end) {
	if peer.id != noID && peer.id != hostID && peer.id != x.pod {
		x.w[peer.id] = x.w[peer.id].clone() // the others of this session are copies already
	}
	x.w.delete(here.id, here.name)
	x.discarded = append(x.discarded, here)
}

// shape gives a link what l asks for, except up and down.
func (x *transaction) shape(s *space, l netstate.Link) error {
	have := s.links[l.Name]
	if have.MAC == "" && have.Name != "lo" {
		have.MAC = s.mac(l.Name)
	}
	if have.MTU == 0 && have.Kind != "bridge" {
		have.MTU = defaultMTU
	}
	if l.MAC != "" {
		have.MAC = l.MAC
	}
	if l.MTU != 0 {
		have.MTU = l.MTU
	}
	if l.Master != "" {
		master, ok := s.links[l.Master]
		switch {
		case !ok:
			return fmt.Errorf("set master %s: %w", l.Master, netstate.ErrNotExist)
		case master.Kind != "bridge":
			return fmt.Errorf("set master %s: it is no bridge", l.Master)
		case have.Kind == "bridge" || have.Name == "lo":
			return fmt.Errorf("set master %s: %s can't be a port", l.Master, have.Name)
		}
		have.Master, have.Port = l.Master, l.Port
	}
	if l.VLANs != nil {
		have.VLANs = l.VLANs
	}
	have.Bridge.VLANFiltering = have.Bridge.VLANFiltering || l.Bridge.VLANFiltering
	have.NoIPv6 = have.NoIPv6 || l.NoIPv6
	have.ARPNotify = have.ARPNotify || l.ARPNotify
	have.Promisc = (have.Promisc || l.Promisc) && !l.NoPromisc
	have.AllMulti, have.TxQLen = cmp.Or(l.AllMulti, have.AllMulti), cmp.Or(l.TxQLen, have.TxQLen)
	s.links[l.Name] = have
	for _, name := range []string{l.Name, have.Master} {
		if name != "" && s.mtu(name) < minMTU6 {
			s.dropIPv6(name)
		}
	}
	return nil
}

// up brings a link up, or down where the state says so.
func (x *transaction) up(l netstate.Link) error {
	s, have, err := x.dev(l.Place, l.Name)
	if err != nil {
		return err
	}
	if l.Down {
		s.down(l.Name)
		return nil
	}
	have.Down = false
	s.links[l.Name] = have
	return nil
}
