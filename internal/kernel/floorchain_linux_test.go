package kernel

import (
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// Floor makes what a state of bridge, portmap, firewall, bandwidth and tuning asks for by the fewest messages that any
// program must send, on raw sockets, without a question, a check or an undo. The bridge, the tables and
// what all pods share must be there.
type Floor struct {
	tb           testing.TB
	link, filter int
	bridge       int32
	buf          []byte

	st        netstate.State
	veth, ifb int32
	sysctls   []string // what they were
}

// NewFloor returns a floor on a bridge in the namespace of this process.
func NewFloor(tb testing.TB, bridge string) *Floor {
	f := &Floor{tb: tb, link: rawSocket(tb, unix.NETLINK_ROUTE), filter: rawSocket(tb, unix.NETLINK_NETFILTER), buf: make([]byte, 1<<16)}
	f.bridge = askIndex(tb, f.link, bridge)
	return f
}

// FloorMessages is what Add sends of rtnetlink: two links, four of traffic control, three in the pod, two links that come up.
const FloorMessages = 2 + 4 + 3 + 2

// Add makes the state in a pod and returns how long it took. What does not depend on the kernel's answers is written out
// beforehand.
func (f *Floor) Add(pod string, st netstate.State) time.Duration {
	f.st, f.sysctls = st, nil
	rules := f.elements(unix.NFT_MSG_NEWSETELEM)
	veth, peer := f.find(netstate.Host, kindVeth), f.find(netstate.Pod, kindVeth)
	start := time.Now()
	fd, err := unix.Open(pod, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		f.tb.Fatal(err)
	}
	inPod := enterSocket(f.tb, fd, f.writeSysctls)
	var peerIndex int32
	f.veth, peerIndex = floorVeth(f.tb, f.link, f.buf, floorPlace{f.bridge, fd}, veth, peer)
	f.ifb = f.makeIFB()
	exchange(f.tb, f.link, f.buf, len(st.Qdiscs)+len(st.Filters), f.traffic())
	exchange(f.tb, inPod, f.buf, 3, f.pod(peerIndex))
	exchange(f.tb, f.filter, f.buf, 0, rules)
	up := floorUp(st, f.veth)
	putPort(&up, veth.Port)
	exchange(f.tb, f.link, f.buf, 2, append(framed(unix.RTM_NEWLINK, 0, up), framed(unix.RTM_NEWLINK, 0, floorUp(st, f.ifb))...))
	unix.Close(inPod)
	unix.Close(fd)
	return time.Since(start)
}

// Remove takes the last state back. The pod's sysctls are its own business.
func (f *Floor) Remove() {
	for _, index := range []int32{f.veth, f.ifb} {
		exchange(f.tb, f.link, f.buf, 1, framed(unix.RTM_DELLINK, 0, linkMessage(index, 0, 0)))
	}
	exchange(f.tb, f.filter, f.buf, 0, f.elements(unix.NFT_MSG_DELSETELEM))
}

// find is the link of the state at a place.
func (f *Floor) find(p netstate.Place, kind string) netstate.Link {
	i := slices.IndexFunc(f.st.Links, func(l netstate.Link) bool { return l.Place == p && l.Kind == kind })
	if i < 0 {
		f.tb.Fatalf("no %s of the %s in\n%s", kind, p, f.st)
	}
	return f.st.Links[i]
}

// writeSysctls writes the pod's, on a thread in the pod.
func (f *Floor) writeSysctls() error {
	for _, s := range f.st.Sysctls {
		if s.Place != netstate.Pod {
			continue
		}
		if err := os.WriteFile(procSys+"/"+s.Name, []byte(s.Value), 0); err != nil {
			return err
		}
	}
	return nil
}

func (f *Floor) makeIFB() int32 {
	l := f.find(netstate.Host, kindIFB)
	m := linkMessage(0, 0, 0)
	m.text(unix.IFLA_IFNAME, l.Name)
	m.u32(unix.IFLA_MTU, uint32(l.MTU))
	m.bytes(unix.IFLA_ADDRESS, randomMAC())
	m.nest(unix.IFLA_LINKINFO, func() { m.text(unix.IFLA_INFO_KIND, kindIFB) })
	out := framed(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ECHO, m)
	return parseDevice(netstate.Host, exchange(f.tb, f.link, f.buf, 1, out)[headerLen:]).index
}

// traffic is the queues and the redirection.
func (f *Floor) traffic() []byte {
	index := map[string]int32{f.find(netstate.Host, kindVeth).Name: f.veth, f.find(netstate.Host, kindIFB).Name: f.ifb}
	var out []byte
	for i := range f.st.Qdiscs {
		m, err := qdiscMessage(&f.st.Qdiscs[i], index[f.st.Qdiscs[i].Dev])
		if err != nil {
			f.tb.Fatal(err)
		}
		out = append(out, framed(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL, m)...)
	}
	for _, filter := range f.st.Filters {
		m := redirectMessage(index[filter.Dev], index[filter.To])
		out = append(out, framed(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL, m)...)
	}
	return out
}

// pod is address, up and route in the pod.
func (f *Floor) pod(index int32) []byte {
	var out []byte
	for i := range f.st.Addrs {
		if a := &f.st.Addrs[i]; a.Place == netstate.Pod {
			out = append(out, framed(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, addrMessage(a, index))...)
		}
	}
	out = append(out, framed(unix.RTM_NEWLINK, 0, linkMessage(index, unix.IFF_UP, unix.IFF_UP))...)
	for i := range f.st.Routes {
		out = append(out, framed(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, routeMessage(&f.st.Routes[i], index))...)
	}
	return out
}

// elements is the transaction that adds or deletes them all.
func (f *Floor) elements(kind int) []byte {
	want, err := encodeElements(f.st)
	if err != nil {
		f.tb.Fatal(err)
	}
	var msgs []filterMessage
	if kind == unix.NFT_MSG_NEWSETELEM {
		msgs, err = addMessages(want)
	} else {
		keys := make([]elementKey, len(want))
		for i, w := range want {
			keys[i] = w.elementKey()
		}
		msgs, err = deleteMessages(keys)
	}
	if err != nil {
		f.tb.Fatal(err)
	}
	var c filterConn
	out := c.frame(nil, filterMessage{kind: batchBegin}, unix.NFNL_SUBSYS_NFTABLES)
	for _, m := range msgs {
		out = c.frame(out, m, 0)
	}
	return c.frame(out, filterMessage{kind: batchEnd}, unix.NFNL_SUBSYS_NFTABLES)
}
