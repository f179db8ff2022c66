package netstate

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode"
)

const (
	minMTU     = 68 // of IPv4
	maxMTU     = 65536
	maxNameLen = 15 // IFNAMSIZ without the zero byte
	maxVLAN    = 4094

	// What is larger the kernel cuts down without a word (ip_metrics_convert), and no CHECK would find it again.
	maxRouteMTU = 65535 - 15
	maxAdvMSS   = 65535 - 40
)

// Check refuses what no kernel takes, so that nothing has to be undone for what can be told from the state
// alone. Each error is an [*ObjectError]. What an nft or iptables object may say is the kernel's to check.
func (s State) Check() error {
	return errors.Join(
		CheckEach(s.Links, func(l Link) error { return checkLink(l, s.Links) }),
		CheckEach(s.Sysctls, checkSysctl),
		CheckEach(s.Addrs, checkAddr),
		CheckEach(s.Routes, checkRoute),
		CheckEach(s.Rules, checkRule),
		CheckEach(s.Neighbours, checkNeighbour),
		CheckEach(s.Qdiscs, checkQdisc),
		CheckEach(s.Filters, func(f Filter) error {
			return errors.Join(checkPlace(f.Place), CheckName(f.Dev), CheckName(f.To))
		}),
		CheckEach(s.Sources, checkSource),
		CheckEach(s.Flows, checkFlow),
	)
}

// CheckEach applies f to each object, and makes its errors [*ObjectError]s.
func CheckEach[T Object](list []T, f func(T) error) error {
	var errs []error
	for _, o := range list {
		if err := f(o); err != nil {
			errs = append(errs, &ObjectError{Object: o.Key(), Err: err})
		}
	}
	return errors.Join(errs...)
}

func checkPlace(p Place) error {
	if p != Host && p != Pod {
		return fmt.Errorf("unknown place %q", p)
	}
	return nil
}

// CheckName checks the name of an interface by Linux's own rules (dev_valid_name).
func CheckName(name string) error {
	bad := func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) }
	if name == "" || len(name) > maxNameLen || name == "." || name == ".." || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%q is no name of an interface", name)
	}
	return nil
}

func checkLink(l Link, all []Link) error {
	errs := []error{checkPlace(l.Place), CheckName(l.Name)}
	switch l.Kind {
	case "", "bridge", "ifb", "dummy":
	case "veth":
		if l.Peer != "" {
			errs = append(errs, checkPlace(l.PeerRef().Place), CheckName(l.Peer))
		} else if !slices.ContainsFunc(all, func(o Link) bool { return o.Kind == "veth" && o.PeerRef() == l.Ref() }) {
			errs = append(errs, errors.New("a veth needs a peer"))
		}
	default:
		errs = append(errs, fmt.Errorf("kind %s: %w", l.Kind, ErrUnsupported))
	}
	if l.MTU != 0 && (l.MTU < minMTU || l.MTU > maxMTU) {
		errs = append(errs, fmt.Errorf("mtu %d is not from %d to %d", l.MTU, minMTU, maxMTU))
	}
	if l.MAC != "" {
		_, err := ParseMAC(l.MAC)
		errs = append(errs, err)
	}
	if l.Promisc && l.NoPromisc {
		errs = append(errs, errors.New("promisc and nopromisc"))
	}
	if l.AllMulti != "" && l.AllMulti != On && l.AllMulti != Off {
		errs = append(errs, fmt.Errorf("allmulti is %q", l.AllMulti))
	}
	if l.TxQLen < NoQueue || l.TxQLen > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("txqlen %d is out of its range", l.TxQLen))
	}
	if l.Master == "" && l.Port != (Port{}) {
		errs = append(errs, errors.New("behaviour as a port without a master"))
	}
	for _, v := range l.VLANs {
		if v.From < 1 || v.To < v.From || v.To > maxVLAN {
			errs = append(errs, fmt.Errorf("vlan %s is not from 1 to %d", v, maxVLAN))
		}
	}
	return errors.Join(errs...)
}

func checkAddr(a Addr) error {
	if !a.Prefix.IsValid() || a.Prefix.Addr().Is4In6() {
		return errors.New("no valid address")
	}
	return errors.Join(checkPlace(a.Place), CheckName(a.Dev))
}

func checkRoute(r Route) error {
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
	if r.Scope < 0 || r.Scope > 255 || !fits32(r.Table) || !fits32(r.Priority) || !fits32(r.MTU) || !fits32(r.AdvMSS) {
		errs = append(errs, errors.New("a number is out of its range"))
	}
	if fits32(r.MTU) && r.MTU > maxRouteMTU {
		errs = append(errs, fmt.Errorf("mtu %d is not from 0 to %d", r.MTU, maxRouteMTU))
	}
	if fits32(r.AdvMSS) && r.AdvMSS > maxAdvMSS {
		errs = append(errs, fmt.Errorf("advmss %d is not from 0 to %d", r.AdvMSS, maxAdvMSS))
	}
	return errors.Join(errs...)
}

func checkRule(r Rule) error {
	errs := []error{checkPlace(r.Place)}
	for _, p := range []netip.Prefix{r.From, r.To} {
		if p.IsValid() && p.Masked() != p {
			errs = append(errs, fmt.Errorf("%s has host bits", p))
		}
	}
	if r.From.IsValid() && r.To.IsValid() && r.From.Addr().Is4() != r.To.Addr().Is4() {
		errs = append(errs, errors.New("from and to are of two families"))
	}
	if !fits32(r.Table) || !fits32(r.Priority) {
		errs = append(errs, errors.New("a number is out of its range"))
	}
	return errors.Join(errs...)
}

func checkNeighbour(n Neighbour) error {
	_, err := ParseMAC(n.MAC)
	if !n.Addr.IsValid() {
		err = errors.Join(err, errors.New("no address"))
	}
	return errors.Join(checkPlace(n.Place), CheckName(n.Dev), err)
}

func checkQdisc(q Qdisc) error {
	errs := []error{checkPlace(q.Place), CheckName(q.Dev)}
	switch q.Kind {
	case "ingress":
	case "tbf":
		if q.Rate == 0 || q.Burst == 0 || q.Limit == 0 {
			errs = append(errs, errors.New("tbf needs rate, burst and limit"))
		}
	default:
		errs = append(errs, fmt.Errorf("kind %s: %w", q.Kind, ErrUnsupported))
	}
	return errors.Join(errs...)
}

// checkSysctl takes only names below /proc/sys/net, where what a namespace has of its own is. The name is a
// clean path: an interface's name may hold dots, but not be "..".
func checkSysctl(s Sysctl) error {
	errs := []error{checkPlace(s.Place)}
	if !strings.HasPrefix(s.Name, "net/") || path.Clean(s.Name) != s.Name {
		errs = append(errs, errors.New("the name is no path below net/"))
	}
	return errors.Join(errs...)
}

// checkSource wants one address, in the form in which firewalld is asked for it again.
func checkSource(s Source) error {
	switch {
	case s.Zone == "" || strings.ContainsFunc(s.Zone, unicode.IsControl):
		return fmt.Errorf("%q is no name of a zone", s.Zone)
	case !s.Prefix.IsSingleIP() || s.Prefix.Addr().Is4In6() || s.Prefix.Addr().Zone() != "":
		return fmt.Errorf("%s is not one address", s.Prefix)
	}
	return nil
}

func checkFlow(f Flow) error {
	switch {
	case f.Protocol == "" && f.Port == 0 && f.Addr.IsValid() && f.Addr.Is6() == f.IPv6:
		return nil
	case !slices.Contains([]string{"udp", "tcp", "sctp"}, f.Protocol):
		return fmt.Errorf("unknown protocol %q", f.Protocol)
	case f.Port < 1 || f.Port > 65535:
		return fmt.Errorf("port %d is not from 1 to 65535", f.Port)
	case f.Addr.IsValid() && f.Addr.Is6() != f.IPv6:
		return fmt.Errorf("address %s is of another family", f.Addr)
	}
	return nil
}

// fits32 reports whether the kernel's 32 bits for a number hold it.
func fits32(n int) bool { return n >= 0 && int64(n) <= math.MaxUint32 }
