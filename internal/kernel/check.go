package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"
	"unicode"

	"github.com/cleat-cni/cleat/netstate"
)

const (
	minMTU     = 68 // of IPv4
	maxMTU     = 65536
	maxNameLen = 15 // IFNAMSIZ without the zero byte
	maxVLAN    = 4094
)

// The kinds of links and qdiscs that are made here.
const (
	kindVeth   = "veth"
	kindBridge = "bridge"
	kindIFB    = "ifb"
	kindDummy  = "dummy"

	kindTBF     = "tbf"
	kindIngress = "ingress"
)

// check refuses what no kernel takes, so that nothing has to be undone for what can be told from
// the state alone. Each error is about one object.
func check(s netstate.State) error {
	return errors.Join(
		checkEach(s.Links, checkLink),
		checkEach(s.Links, func(l netstate.Link) error { return checkPeer(s.Links, &l) }),
		checkEach(s.Sysctls, checkSysctl),
		checkEach(s.Addrs, checkAddr),
		checkEach(s.Routes, checkRoute),
		checkEach(s.Rules, checkRule),
		checkEach(s.Neighbours, checkNeighbour),
		checkEach(s.Qdiscs, checkQdisc),
		checkIptables(s),
		checkEach(s.Filters, func(f netstate.Filter) error {
			return errors.Join(checkPlace(f.Place), checkName(f.Dev), checkName(f.To))
		}),
	)
}

func checkEach[T netstate.Object](list []T, f func(T) error) error {
	var errs []error
	for _, o := range list {
		if err := f(o); err != nil {
			errs = append(errs, about(o, err))
		}
	}
	return errors.Join(errs...)
}

// about is an error about one object.
func about(o netstate.Object, err error) error {
	return &netstate.ObjectError{Object: o.Key(), Err: err}
}

func checkPlace(p netstate.Place) error {
	if p != netstate.Host && p != netstate.Pod {
		return fmt.Errorf("unknown place %q", p)
	}
	return nil
}

// checkName has Linux's own rules for the name of an interface.
func checkName(name string) error {
	bad := func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) }
	if name == "" || len(name) > maxNameLen || name == "." || name == ".." || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%q is no name of an interface", name)
	}
	return nil
}

func checkLink(l netstate.Link) error {
	errs := []error{checkPlace(l.Place), checkName(l.Name)}
	switch l.Kind {
	case "", kindBridge, kindIFB, kindDummy:
	case kindVeth:
		if l.Peer != "" {
			errs = append(errs, checkPlace(peerRef(&l).Place), checkName(l.Peer))
		}
	default:
		errs = append(errs, fmt.Errorf("kind %s: %w", l.Kind, netstate.ErrUnsupported))
	}
	if l.MTU != 0 && (l.MTU < minMTU || l.MTU > maxMTU) {
		errs = append(errs, fmt.Errorf("mtu %d is not from %d to %d", l.MTU, minMTU, maxMTU))
	}
	if l.MAC != "" {
		_, err := netstate.ParseMAC(l.MAC)
		errs = append(errs, err)
	}
	if l.Master == "" && l.Port != (netstate.Port{}) {
		errs = append(errs, errors.New("behaviour as a port without a master"))
	}
	for _, v := range l.VLANs {
		if v.From < 1 || v.To < v.From || v.To > maxVLAN {
			errs = append(errs, fmt.Errorf("vlan %s is not from 1 to %d", v, maxVLAN))
		}
	}
	return errors.Join(errs...)
}

// peerRef is where the other end of a veth is.
func peerRef(l *netstate.Link) netstate.Ref {
	ref := netstate.Ref{Place: l.PeerPlace, Name: l.Peer}
	if ref.Place == "" {
		ref.Place = netstate.Host
	}
	return ref
}

func refOf(l *netstate.Link) netstate.Ref { return netstate.Ref{Place: l.Place, Name: l.Name} }

// findPeer returns the link of the state that is the other end of the veth l: the one that l names, or that
// names l.
func findPeer(links []netstate.Link, l *netstate.Link) *netstate.Link {
	for i := range links {
		o := &links[i]
		if o.Kind != kindVeth || refOf(o) == refOf(l) {
			continue
		}
		if l.Peer != "" && peerRef(l) == refOf(o) || o.Peer != "" && peerRef(o) == refOf(l) {
			return o
		}
	}
	return nil
}

func checkPeer(links []netstate.Link, l *netstate.Link) error {
	if l.Kind == kindVeth && l.Peer == "" && findPeer(links, l) == nil {
		return errors.New("a veth needs a peer")
	}
	return nil
}

func checkAddr(a netstate.Addr) error {
	if !a.Prefix.IsValid() || a.Prefix.Addr().Is4In6() {
		return errors.New("no valid address")
	}
	return errors.Join(checkPlace(a.Place), checkName(a.Dev))
}

func checkRoute(r netstate.Route) error {
	errs := []error{checkPlace(r.Place)}
	switch {
	case !r.Dst.IsValid() || r.Dst.Addr().Is4In6():
		errs = append(errs, errors.New("no valid destination"))
	case r.Dst.Masked() != r.Dst:
		errs = append(errs, errors.New("the destination has host bits"))
	case r.Via.IsValid() && r.Via.Is4() && r.Dst.Addr().Is6(): // the other way round there is, since Linux 5.2
		errs = append(errs, fmt.Errorf("gateway %s is of another family", r.Via))
	case r.Src.IsValid() && r.Src.Is4() != r.Dst.Addr().Is4():
		errs = append(errs, fmt.Errorf("source %s is of another family", r.Src))
	}
	if r.Dev == "" && !r.Via.IsValid() {
		errs = append(errs, errors.New("neither device nor gateway"))
	}
	if r.Scope < 0 || r.Scope > 255 || r.Table < 0 || r.Priority < 0 || r.MTU < 0 || r.AdvMSS < 0 {
		errs = append(errs, errors.New("a number is out of its range"))
	}
	return errors.Join(errs...)
}

func checkRule(r netstate.Rule) error {
	errs := []error{checkPlace(r.Place)}
	for _, p := range []netip.Prefix{r.From, r.To} {
		if p.IsValid() && p.Masked() != p {
			errs = append(errs, fmt.Errorf("%s has host bits", p))
		}
	}
	if r.From.IsValid() && r.To.IsValid() && r.From.Addr().Is4() != r.To.Addr().Is4() {
		errs = append(errs, errors.New("from and to are of two families"))
	}
	if r.Table < 0 || r.Priority < 0 {
		errs = append(errs, errors.New("a number is out of its range"))
	}
	return errors.Join(errs...)
}

func checkNeighbour(n netstate.Neighbour) error {
	_, err := netstate.ParseMAC(n.MAC)
	if !n.Addr.IsValid() {
		err = errors.Join(err, errors.New("no address"))
	}
	return errors.Join(checkPlace(n.Place), checkName(n.Dev), err)
}

func checkQdisc(q netstate.Qdisc) error {
	errs := []error{checkPlace(q.Place), checkName(q.Dev)}
	switch q.Kind {
	case kindIngress:
	case kindTBF:
		if q.Rate == 0 || q.Burst == 0 || q.Limit == 0 {
			errs = append(errs, errors.New("tbf needs rate, burst and limit"))
		}
	default:
		errs = append(errs, fmt.Errorf("kind %s: %w", q.Kind, netstate.ErrUnsupported))
	}
	return errors.Join(errs...)
}

// checkSysctl takes only names below /proc/sys/net, where what a namespace has of its own is. The name is a
// clean path: an interface's name may hold dots, but not be "..".
func checkSysctl(s netstate.Sysctl) error {
	errs := []error{checkPlace(s.Place)}
	if !strings.HasPrefix(s.Name, "net/") || path.Clean(s.Name) != s.Name {
		errs = append(errs, errors.New("the name is no path below net/"))
	}
	return errors.Join(errs...)
}
