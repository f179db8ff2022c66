package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// BenchmarkFloor is what the kernel itself takes for an ADD of bridge, host-local and portmap: the same
// effects as [BenchmarkApply]'s, by the fewest messages, which are written out beforehand, on raw sockets
// without any checks, names or undo. The deletion is outside the time.
func BenchmarkFloor(b *testing.B) {
	pod := sandbox.Namespace(b)
	prepareFloor(b, pod)
	link, filter := rawSocket(b, unix.NETLINK_ROUTE), rawSocket(b, unix.NETLINK_NETFILTER)
	bridge := askIndex(b, link, "cni0")
	buf := make([]byte, 1<<16)
	i := 0
	var c Clock
	for b.Loop() {
		i++
		st := bridgeState(i%60000 + 2)
		c.Start()
		fd, err := unix.Open(pod.Path(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		inPod := enterSocket(b, fd)
		index, peer := floorVeth(b, link, buf, floorPlace{bridge, fd}, st.Links[1], st.Links[2])
		exchange(b, inPod, buf, 3, floorPod(st, peer))
		exchange(b, filter, buf, 0, floorElements(st))
		exchange(b, link, buf, 1, floorOpen(st, index))
		unix.Close(inPod)
		unix.Close(fd)
		c.Stop()
		b.StopTimer()
		exchange(b, link, buf, 1, framed(unix.RTM_DELLINK, 0, linkMessage(index, 0, 0)))
		exchange(b, filter, buf, 0, floorBatch(unix.NFT_MSG_DELSETELEM, 0, st))
		b.StartTimer()
	}
	c.Report(b)
}

// Clock takes the time of each turn, to report the middle one: on a machine that does other things too the mean
// says little.
type Clock struct {
	began time.Time
	turns []time.Duration
}

// Start begins a turn.
func (c *Clock) Start() { c.began = time.Now() }

// Stop ends it.
func (c *Clock) Stop() { c.Took(time.Since(c.began)) }

// Took adds a turn that another has timed.
func (c *Clock) Took(d time.Duration) { c.turns = append(c.turns, d) }

// Report adds the median of the turns to the benchmark, in microseconds.
func (c *Clock) Report(b *testing.B) { b.ReportMetric(float64(c.Median())/1e3, "p50-us/op") }

// Median is that of the turns.
func (c *Clock) Median() time.Duration {
	slices.Sort(c.turns)
	return c.turns[len(c.turns)/2]
}

// benchKernel is a Kernel in the namespace of this process, as in production. It is the sandbox's, which ends
// with the benchmarks.
func benchKernel(b *testing.B) *Kernel {
	sandbox.Require(b)
	k, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := k.Close(); err != nil {
			b.Error(err)
		}
	})
	return k
}

// prepareFloor makes the bridge and the tables.
func prepareFloor(b *testing.B, pod *netns.Handle) {
	k, st := benchKernel(b), bridgeState(1)
	add(b, openPod(b, k, pod), st)
	removeAll(b, k, st)
}

func rawSocket(b testing.TB, protocol int) int {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(fd) })
	return fd
}

// enterSocket opens a socket in the namespace with descriptor fd the cheapest way: on the thread that runs, which
// goes there and back. There it also does what else is to be done.
func enterSocket(b testing.TB, fd int, also ...func() error) int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	back, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(back)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		b.Fatal(err)
	}
	sock, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	for _, f := range also {
		err = errors.Join(err, f())
	}
	if err := unix.Setns(back, unix.CLONE_NEWNET); err != nil {
		panic(err) // the thread is lost
	}
	if err != nil {
		b.Fatal(err)
	}
	return sock
}

// framed puts the netlink header before a message; it asks for an acknowledgement.
func framed(kind, flags uint16, m message) []byte {
	m.pad()
	native.PutUint32(m, uint32(len(m)))
	native.PutUint16(m[4:], kind)
	native.PutUint16(m[6:], flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	return m
}

// exchange sends bytes and reads acks acknowledgements, or, with 0, whether there is an error: nft speaks of
// success only when asked to, and by then all is done.
func exchange(b testing.TB, fd int, buf []byte, acks int, out []byte) []byte {
	if _, err := unix.Write(fd, out); err != nil {
		b.Fatal(err)
	}
	var other []byte
	for acks > 0 {
		n, err := unix.Read(fd, buf)
		if err != nil {
			b.Fatal(err)
		}
		in := buf[:n]
		if native.Uint16(in[4:]) != unix.NLMSG_ERROR {
			other = append([]byte(nil), in...)
			continue
		}
		acks--
		if code := int32(native.Uint32(in[headerLen:])); code != 0 {
			b.Fatalf("message refused: %v", unix.Errno(-code))
		}
	}
	if n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT); err == nil {
		b.Fatalf("unexpected answer %x", buf[:n])
	}
	return other
}

func askIndex(b testing.TB, fd int, name string) int32 {
	m := linkMessage(0, 0, 0)
	m.text(unix.IFLA_IFNAME, name)
	d := parseDevice(netstate.Host, exchange(b, fd, make([]byte, 1<<16), 1, framed(unix.RTM_GETLINK, 0, m))[headerLen:])
	return d.index
}

// floorVeth makes the pair and returns the indexes of both ends.
func floorVeth(b testing.TB, fd int, buf []byte, at floorPlace, host, pod netstate.Link) (index, peer int32) {
	end := func(m *message, l netstate.Link) {
		m.text(unix.IFLA_IFNAME, l.Name)
		m.u32(unix.IFLA_MTU, uint32(l.MTU))
		m.bytes(unix.IFLA_ADDRESS, randomMAC())
		if l.TxQLen != 0 {
			m.u32(unix.IFLA_TXQLEN, uint32(l.TxQLen))
		}
	}
	m := linkMessage(0, 0, 0)
	end(&m, host)
	m.u32(unix.IFLA_MASTER, uint32(at.bridge))
	m.nest(unix.IFLA_LINKINFO, func() {
		m.text(unix.IFLA_INFO_KIND, kindVeth)
		m.nest(unix.IFLA_INFO_DATA, func() {
			m.nest(vethInfoPeer, func() {
				m.raw(make([]byte, unix.SizeofIfInfomsg))
				end(&m, pod)
				m.u32(unix.IFLA_NET_NS_FD, uint32(at.pod))
			})
		})
	})
	out := framed(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ECHO, m)
	d := parseDevice(netstate.Host, exchange(b, fd, buf, 1, out)[headerLen:])
	return d.index, d.peer
}

// floorPlace is where a pair goes: the bridge's index and the descriptor of the pod's namespace.
type floorPlace struct {
	bridge int32
	pod    int
}

// floorPod is address, up and route in the pod.
func floorPod(st netstate.State, index int32) []byte {
	out := framed(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, addrMessage(&st.Addrs[1], index))
	out = append(out, framed(unix.RTM_NEWLINK, 0, linkMessage(index, unix.IFF_UP, unix.IFF_UP))...)
	return append(out, framed(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, routeMessage(&st.Routes[0], index))...)
}

// floorOpen is the host's end up, as a port with hairpin, and its alias.
func floorOpen(st netstate.State, index int32) []byte {
	m := floorUp(st, index)
	putPort(&m, st.Links[1].Port)
	return framed(unix.RTM_NEWLINK, 0, m)
}

func floorUp(st netstate.State, index int32) message {
	m := linkMessage(index, unix.IFF_UP, unix.IFF_UP)
	m.text(unix.IFLA_IFALIAS, st.Owner.Comment(aliasSize))
	return m
}

func floorElements(st netstate.State) []byte {
	return floorBatch(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE|unix.NLM_F_EXCL, st)
}

// floorBatch is the transaction of both elements.
func floorBatch(kind, flags uint16, st netstate.State) []byte {
	const (
		family      = unix.NFPROTO_INET
		elementKey  = unix.NFTA_SET_ELEM_KEY
		elementData = unix.NFTA_SET_ELEM_DATA
	)
	begin := func(id uint16) message {
		m := newMessage(4) // struct nfgenmsg
		m.family()[3] = byte(id)
		m.family()[2] = byte(id >> 8)
		return m
	}
	element := func(set string, key, data []byte) []byte {
		m := begin(0)
		m.family()[0] = family
		m.text(unix.NFTA_SET_ELEM_LIST_TABLE, netstate.TableName)
		m.text(unix.NFTA_SET_ELEM_LIST_SET, set)
		m.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, func() {
			m.nest(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, func() {
				m.nest(elementKey|unix.NLA_F_NESTED, func() { m.bytes(unix.NFTA_DATA_VALUE, key) })
				if data != nil {
					m.nest(elementData|unix.NLA_F_NESTED, func() { m.bytes(unix.NFTA_DATA_VALUE, data) })
				}
				if kind == unix.NFT_MSG_NEWSETELEM {
					m.bytes(unix.NFTA_SET_ELEM_USERDATA, elementUserdata(netstate.Element{Owner: st.Owner}))
				}
			})
		})
		return noAck(framed(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, m))
	}
	addr := st.Addrs[1].Prefix.Addr().As4()
	var number int
	fmt.Sscan(st.Elements[0].Match[1], &number)
	key := []byte{unix.IPPROTO_TCP, 0, 0, 0, byte(number >> 8), byte(number), 0, 0}
	data := append(addr[:], 0, 80, 0, 0)
	out := noAck(framed(unix.NFNL_MSG_BATCH_BEGIN, 0, begin(unix.NFNL_SUBSYS_NFTABLES)))
	out = append(out, element("hostports4", key, data)...)
	out = append(out, element("masq4", addr[:], nil)...)
	return append(out, noAck(framed(unix.NFNL_MSG_BATCH_END, 0, begin(unix.NFNL_SUBSYS_NFTABLES)))...)
}

func noAck(b []byte) []byte {
	native.PutUint16(b[6:], native.Uint16(b[6:])&^unix.NLM_F_ACK)
	return b
}

// BenchmarkApply is an ADD of bridge, host-local and portmap as a session does it: opened, observed, applied, closed.
func BenchmarkApply(b *testing.B) {
	for _, others := range []int{0, 100} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			k := benchKernel(b)
			for i := range others {
				st := bridgeState(30000 + i)
				add(b, openPod(b, k, sandbox.Namespace(b)), st)
				b.Cleanup(func() { removeAll(b, k, st) })
			}
			pod := sandbox.Namespace(b)
			i := 0
			add(b, openPod(b, k, pod), bridgeState(1))
			removeAll(b, k, bridgeState(1))
			before, counted := k.Stats(), Stats{}
			var c Clock
			for b.Loop() {
				i++
				st := bridgeState(i%20000 + 2)
				c.Start()
				s, err := k.Open(b.Context(), pod.Path(), false)
				if err != nil {
					b.Fatal(err)
				}
				add(b, s, st)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				c.Stop()
				b.StopTimer()
				now := k.Stats()
				counted.Rtnetlink += now.Rtnetlink - before.Rtnetlink
				counted.NftMessages += now.NftMessages - before.NftMessages
				removeAll(b, k, st)
				before = k.Stats()
				b.StartTimer()
			}
			c.Report(b)
			b.ReportMetric(float64(counted.Rtnetlink)/float64(i), "rtnetlink/op")
			b.ReportMetric(float64(counted.NftMessages)/float64(i), "nft/op")
		})
	}
}

// removeAll removes an attachment and waits until the kernel has reclaimed its links.
func removeAll(b *testing.B, k *Kernel, st netstate.State) {
	s, err := k.Open(context.WithoutCancel(b.Context()), "", false)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Remove(context.WithoutCancel(b.Context()), st, true); err != nil {
		b.Fatal(err)
	}
	k.common.deletes.Wait()
}

// BenchmarkRemove is a DEL of the same.
func BenchmarkRemove(b *testing.B) {
	k, pod := benchKernel(b), sandbox.Namespace(b)
	i := 0
	var c Clock
	for b.Loop() {
		i++
		b.StopTimer()
		st := bridgeState(i%20000 + 2)
		s, err := k.Open(b.Context(), pod.Path(), false)
		if err != nil {
			b.Fatal(err)
		}
		add(b, s, st)
		k.common.deletes.Wait()
		b.StartTimer()
		c.Start()
		if err := s.Remove(b.Context(), st, false); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		c.Stop()
	}
	c.Report(b)
}
