package kernel_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// TestPlanIsWhatIsSent compares the plan of a chain with what an ADD then sends. The kernel's notices say by the port of their sender
// which changes were asked for by a message, and which it made by itself.
func TestPlanIsWhatIsSent(t *testing.T) {
	sandbox.Require(t)
	host, pod := sandbox.Namespace(t), sandbox.Namespace(t)
	dir, err := os.MkdirTemp("/var/lib/cni", "sent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	list := strings.Replace(chainList, `[{"subnet":"10.90.0.0/16"}]`, `[{"subnet":"10.90.0.0/16"}],[{"subnet":"fd00:90::/64"}]`, 1)
	s := setting{dir: dir, conf: fmt.Appendf(nil, list, dir+"/leases", dir+"/tuning"), host: host,
		around: func(k *kernel.Kernel) planned.Kernel { return planned.Wrap(k) }}
	c, network, _ := s.runtime(t)
	run, _ := s.runner(t)
	at := attachment(pod.Path(), 1)
	calls, err := c.Calls(cni.VerbAdd, network, at)
	if err != nil {
		t.Fatal(err)
	}
	plans, err := run.Plan(t.Context(), calls)
	if err != nil {
		t.Fatal(err)
	}
	var states []netstate.State
	for _, p := range plans {
		states = append(states, p.Plan.State)
	}

	ears := []*ear{listenIn(t, netstate.Host, host), listenIn(t, netstate.Pod, pod)}
	if _, err := c.AddNetworkList(t.Context(), network, at); err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, e := range ears {
		sent = append(sent, e.heard(t)...)
	}
	slices.Sort(sent)
	if diff := cmp.Diff(asSent(netstate.Merge(states...)), slices.Compact(sent)); diff != "" {
		t.Errorf("(-planned +sent)\n%s", diff)
	}
}

// asSent is what of a state is heard of: each link that is made, address, route, qdisc and nft object.
func asSent(s netstate.State) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, l := range s.Links {
		add("%s link %s", l.Place, l.Name)
	}
	for _, a := range s.Addrs {
		add("%s addr %s", a.Place, a.Prefix)
	}
	for _, r := range s.Routes {
		add("%s route %s via %s", r.Place, r.Dst, r.Via)
	}
	for _, q := range s.Qdiscs {
		add("%s qdisc %s", q.Place, q.Kind)
	}
	for _, e := range s.Elements {
		add("host element of %s", e.Set)
	}
	for _, t := range s.Tables {
		add("host table %s", t.Name)
		for _, set := range t.Sets {
			add("host set %s", set.Name)
		}
		for _, chain := range t.Chains {
			add("host chain %s", chain.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ear hears what changes in a namespace.
type ear struct {
	place netstate.Place
	conns []*netlink.Conn
}

func listenIn(t *testing.T, place netstate.Place, ns *netns.Handle) *ear {
	t.Helper()
	e := &ear{place: place}
	for family, groups := range map[int][]uint32{
		unix.NETLINK_ROUTE: {unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
			unix.RTNLGRP_TC},
		unix.NETLINK_NETFILTER: {unix.NFNLGRP_NFTABLES},
	} {
		c, err := netlink.Dial(family, &netlink.Config{NetNS: ns.FD()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for _, g := range groups {
			if err := c.JoinGroup(g); err != nil {
				t.Fatal(err)
			}
		}
		e.conns = append(e.conns, c)
	}
	return e
}

// heard reads what was heard so far, of what messages asked for.
func (e *ear) heard(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, c := range e.conns {
		for {
			// What was sent before is here already: notices are put into the socket before the answer to their message.
			if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			messages, err := c.Receive()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range messages {
				if what := notice(t, m); what != "" && (m.Header.PID != 0 || noSender(what)) {
					all = append(all, string(e.place)+" "+what)
				}
			}
		}
	}
	return all
}

// noSender reports whether a notice of this kind names no sender, whoever asked for it: of the other end of a veth, and of IPv6 addresses, of
// which the kernel makes those alone by itself that are link-local.
func noSender(what string) bool {
	return strings.HasPrefix(what, "link ") && what != "link lo" || strings.HasPrefix(what, "addr ") && strings.Contains(what, ":") && !strings.Contains(what, " fe80:")
}

// notice says what a notice is about; "" if it is not about something that a plan has.
func notice(t *testing.T, m netlink.Message) string {
	t.Helper()
	d := m.Data
	switch m.Header.Type {
	case unix.RTM_NEWLINK:
		return "link " + string(trimZero(attribute(t, d, unix.SizeofIfInfomsg, unix.IFLA_IFNAME)))
	case unix.RTM_NEWADDR:
		a := attribute(t, d, unix.SizeofIfAddrmsg, unix.IFA_LOCAL)
		if a == nil {
			a = attribute(t, d, unix.SizeofIfAddrmsg, unix.IFA_ADDRESS)
		}
		addr, _ := netip.AddrFromSlice(a)
		return "addr " + netip.PrefixFrom(addr, int(d[1])).String()
	case unix.RTM_NEWROUTE:
		via, _ := netip.AddrFromSlice(attribute(t, d, unix.SizeofRtMsg, unix.RTA_GATEWAY))
		dst, ok := netip.AddrFromSlice(attribute(t, d, unix.SizeofRtMsg, unix.RTA_DST))
		if !ok {
			dst = map[byte]netip.Addr{unix.AF_INET: netip.IPv4Unspecified(), unix.AF_INET6: netip.IPv6Unspecified()}[d[0]]
		}
		return fmt.Sprintf("route %s via %s", netip.PrefixFrom(dst, int(d[1])), via)
	case unix.RTM_NEWQDISC:
		return "qdisc " + string(trimZero(attribute(t, d, tcHeader, unix.TCA_KIND)))
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWSETELEM:
		return "element of " + string(trimZero(attribute(t, d, nftHeader, unix.NFTA_SET_ELEM_LIST_SET)))
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE:
		return "table " + string(trimZero(attribute(t, d, nftHeader, unix.NFTA_TABLE_NAME)))
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWSET:
		return "set " + string(trimZero(attribute(t, d, nftHeader, unix.NFTA_SET_NAME)))
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWCHAIN:
		return "chain " + string(trimZero(attribute(t, d, nftHeader, unix.NFTA_CHAIN_NAME)))
	}
	return ""
}

// Lengths of struct tcmsg and struct nfgenmsg.
const (
	tcHeader  = 20
	nftHeader = 4
)

// attribute is the value of the first attribute of a kind behind a header of a length; nil without one.
func attribute(t *testing.T, d []byte, header int, kind uint16) []byte {
	t.Helper()
	list, err := netlink.UnmarshalAttributes(d[header:])
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Type&^(netlink.Nested|netlink.NetByteOrder) == kind {
			return a.Data
		}
	}
	return nil
}

func trimZero(b []byte) []byte { return b[:max(0, len(b)-1)] }
