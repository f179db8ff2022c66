package kerneltest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/cleat-cni/cleat/netstate"
)

const (
	defaultMTU = 1500
	minMTU     = 68 // of IPv4, and of Linux for veth and bridge
	maxMTU     = 65536
	minMTU6    = 1280
	mainTable  = 254
)

// check refuses what no kernel takes, and what Memory does not know, before anything is
// made.
func check(s netstate.State) error {
	return errors.Join(
		checkEach(s.Links, checkLink),
		checkEach(s.Sysctls, checkSysctl),
		checkEach(s.Addrs, func(a netstate.Addr) error {
			return errors.Join(checkPlace(a.Place), checkAddr(a))
		}),
		checkEach(s.Routes, checkRoute),
		checkEach(s.Rules, checkRule),
		checkEach(s.Neighbours, checkNeighbour),
		checkEach(s.Qdiscs, checkQdisc),
		checkEach(s.Filters, func(f netstate.Filter) error { return checkPlace(f.Place) }),
		checkEach(s.Tables, checkTable),
		checkEach(s.Elements, func(e netstate.Element) error { return checkElement(s.Tables, e) }),
		checkEach(s.IptablesChains, func(c netstate.IptablesChain) error { return checkIptablesChain(s, c) }),
		checkEach(s.IptablesRules, func(r netstate.IptablesRule) error { return checkIptablesRule(s, r) }),
		checkEach(s.Flows, checkFlow),
	)
}

func checkEach[T netstate.Object](list []T, f func(T) error) error {
	var errs []error
	for _, o := range list {
		if err := f(o); err != nil {
			errs = append(errs, &netstate.ObjectError{Object: o.Key(), Err: err})
		}
	}
	return errors.Join(errs...)
}

func checkPlace(p netstate.Place) error {
	if p != netstate.Host && p != netstate.Pod {
		return fmt.Errorf("unknown place %q", p)
	}
	return nil
}

func checkLink(l netstate.Link) error {
	errs := []error{checkPlace(l.Place), checkName(l.Name)}
	switch l.Kind {
	case "", "bridge", "ifb", "dummy":
	case "veth":
		if l.Peer != "" {
			errs = append(errs, checkPlace(peerRef(l).Place), checkName(l.Peer))
		}
	default:
		errs = append(errs, fmt.Errorf("kind %q: %w", l.Kind, netstate.ErrUnsupported))
	}
	if l.MTU != 0 && l.Name != "lo" && (l.MTU < minMTU || l.MTU > maxMTU) {
		errs = append(errs, fmt.Errorf("mtu %d is not from %d to %d", l.MTU, minMTU, maxMTU))
	}
	if l.MAC != "" {
		errs = append(errs, checkMAC(l.MAC))
	}
	if l.Master == "" && l.Port != (netstate.Port{}) {
		errs = append(errs, errors.New("port options without a master"))
	}
	for _, v := range l.VLANs {
		if v.From < 1 || v.To < v.From || v.To > 4094 {
			errs = append(errs, fmt.Errorf("vlan %s is not from 1 to 4094", v))
		}
	}
	return errors.Join(errs...)
}

// checkName has the rules of Linux for the name of an interface.
func checkName(name string) error {
	bad := func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) }
	if name == "" || len(name) > 15 || name == "." || name == ".." || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%q is no name of an interface", name)
	}
	return nil
}

func checkMAC(mac string) error {
	hw, err := net.ParseMAC(mac)
	switch {
	case err != nil:
		return err
	case len(hw) != 6 || hw.String() != mac:
		return fmt.Errorf("mac %q is not six bytes in lower case", mac)
	case hw[0]&1 != 0 || bytes.Equal(hw, make([]byte, 6)):
		return fmt.Errorf("mac %s is a group's or zero", mac)
	}
	return nil
}

func checkAddr(a netstate.Addr) error {
	ip := a.Prefix.Addr()
	switch {
	case !a.Prefix.IsValid() || ip.Is4In6():
		return errors.New("no valid address")
	case ip.Is6() && (ip.IsUnspecified() || ip.IsMulticast()):
		return fmt.Errorf("%s is no address of a host", ip)
	}
	return nil
}

func checkRoute(r netstate.Route) error {
	errs := []error{checkPlace(r.Place)}
	switch {
	case !r.Dst.IsValid():
		errs = append(errs, errors.New("no destination"))
	case r.Dst.Masked() != r.Dst:
		errs = append(errs, errors.New("the destination has host bits"))
	case r.Via.IsValid() && r.Via.Is4() && r.Dst.Addr().Is6(): // the other way round there is (Linux 5.2)
		errs = append(errs, fmt.Errorf("gateway %s is of another family", r.Via))
	case r.Src.IsValid() && r.Src.Is4() != r.Dst.Addr().Is4():
		errs = append(errs, fmt.Errorf("source %s is of another family", r.Src))
	}
	if r.Dev == "" && !r.Via.IsValid() {
		errs = append(errs, errors.New("neither device nor gateway"))
	}
	if r.Scope < 0 || r.Scope > 255 || r.Table < 0 || r.Priority < 0 || r.MTU < 0 || r.AdvMSS < 0 {
		errs = append(errs, errors.New("a number out of its range"))
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
		errs = append(errs, errors.New("table or priority out of its range"))
	}
	return errors.Join(errs...)
}

func checkNeighbour(n netstate.Neighbour) error {
	errs := []error{checkPlace(n.Place), checkMAC(n.MAC)}
	if !n.Addr.IsValid() {
		errs = append(errs, errors.New("no address"))
	}
	return errors.Join(errs...)
}

func checkQdisc(q netstate.Qdisc) error {
	errs := []error{checkPlace(q.Place)}
	switch q.Kind {
	case "ingress":
	case "tbf":
		if q.Rate == 0 || q.Burst == 0 || q.Limit == 0 {
			errs = append(errs, errors.New("tbf needs rate, burst and limit"))
		}
	default:
		errs = append(errs, fmt.Errorf("unknown kind %q", q.Kind))
	}
	return errors.Join(errs...)
}

// checkSysctl knows the folders below /proc/sys that belong to a network namespace.
func checkSysctl(s netstate.Sysctl) error {
	errs := []error{checkPlace(s.Place)}
	parts := strings.Split(s.Name, "/")
	if slices.ContainsFunc(parts, func(p string) bool { return p == "" || p == "." || p == ".." }) {
		errs = append(errs, errors.New("not a clean path"))
	}
	if len(parts) < 3 || parts[0] != "net" || !slices.Contains([]string{"core", "ipv4", "ipv6", "netfilter", "bridge"}, parts[1]) {
		errs = append(errs, errors.New("unknown folder"))
	}
	return errors.Join(errs...)
}

func checkFlow(f netstate.Flow) error {
	if !slices.Contains([]string{"udp", "tcp", "sctp"}, f.Protocol) {
		return fmt.Errorf("unknown protocol %q", f.Protocol)
	}
	if f.Port < 1 || f.Port > 65535 {
		return fmt.Errorf("port %d is not from 1 to 65535", f.Port)
	}
	if f.Addr.IsValid() && f.Addr.Is6() != f.IPv6 {
		return fmt.Errorf("address %s is of another family", f.Addr)
	}
	return nil
}
