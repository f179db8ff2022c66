package kernel_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// chainList is the chain that podman, nerdctl and nodes of Kubernetes run, with all in it that each plugin does.
const chainList = `{"cniVersion":"1.1.0","name":"chain","plugins":[
	{"type":"bridge","bridge":"cni2","isGateway":true,"isDefaultGateway":true,"ipMasq":true,"hairpinMode":true,
	 "ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.90.0.0/16"}]]}},
	{"type":"portmap","capabilities":{"portMappings":true}},
	{"type":"firewall"},
	{"type":"bandwidth","ingressRate":16000000,"ingressBurst":1600000,"egressRate":8000000,"egressBurst":1600000},
	{"type":"tuning","dataDir":%q,"mtu":1400,"txQLen":500,"sysctl":{"net.core.somaxconn":"500"}}]}`

// chain is the whole way of that list in this process.
type chain struct {
	tb   testing.TB
	cni  *libcni.CNI
	list *libcni.NetworkConfigList
	k    *kernel.Kernel
	pod  string
	made netstate.State // what the last ADD applied
}

// newChain makes one whose files lie in memory, so that what is measured is this code and the kernel's network, and goes once
// through ADD and DEL, which make what stays.
func newChain(tb testing.TB) *chain {
	sandbox.Require(tb)
	dir, err := os.MkdirTemp("/var/lib/cni", "chain")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	c := &chain{tb: tb, pod: sandbox.Namespace(tb).Path()}
	c.cni, c.list, c.k = runtimeOf(tb, dir, fmt.Appendf(nil, chainList, dir+"/leases", dir+"/tuning"),
		func(k *kernel.Kernel) planned.Kernel { return witness{planned.Wrap(k), &c.made} })
	c.add(0)
	c.del(0)
	return c
}

func (c *chain) add(i int) {
	c.tb.Helper()
	if _, err := c.cni.AddNetworkList(context.WithoutCancel(c.tb.Context()), c.list, attachment(c.pod, i)); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *chain) del(i int) {
	c.tb.Helper()
	if err := c.cni.DelNetworkList(context.WithoutCancel(c.tb.Context()), c.list, attachment(c.pod, i)); err != nil {
		c.tb.Fatal(err)
	}
}

// witness is a kernel that notes what is applied.
type witness struct {
	planned.Kernel
	made *netstate.State
}

func (w witness) Open(ctx context.Context, pod string, allowHost bool) (planned.Session, error) {
	s, err := w.Kernel.Open(ctx, pod, allowHost)
	return witnessed{s, w.made}, err
}

type witnessed struct {
	planned.Session
	made *netstate.State
}

func (w witnessed) Apply(ctx context.Context, s netstate.State) error {
	*w.made = s
	return w.Session.Apply(ctx, s)
}

// TestChainMessages: once its tables are there, an ADD of the chain starts no program, is one nft transaction, and sends no more
// than the floor's messages and those named here.
func TestChainMessages(t *testing.T) {
	c := newChain(t)
	var got kernel.Stats
	sent := func() kernel.Stats {
		before, were := c.k.Stats(), children(t)
		c.add(1)
		after := c.k.Stats()
		if ran := children(t); ran != were {
			t.Errorf("ADD started programs: %+v, before %+v", ran, were)
		}
		return kernel.Stats{Rtnetlink: after.Rtnetlink - before.Rtnetlink,
			NftTransactions: after.NftTransactions - before.NftTransactions, NftMessages: after.NftMessages - before.NftMessages}
	}
	got = sent()
	const (
		asked   = 5 // the bridge, its addresses, whether eth0 is there: for bandwidth, for tuning
		noIPv6  = 1 // the host's end gets no address of IPv6
		forward = 2 // whether iptables has a chain FORWARD, in either family
	)
	want := kernel.Stats{Rtnetlink: kernel.FloorMessages + asked + noIPv6, NftTransactions: 1, NftMessages: uint64(len(c.made.Elements)) + forward}
	if got != want {
		t.Errorf("ADD sends %+v, want %+v", got, want)
	}
	c.del(1)
}

// children is what programs that this process started and waited for have cost: it changes with each.
func children(t *testing.T) syscall.Rusage {
	t.Helper()
	var all syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// pair times the floor and an ADD and a DEL of the chain, each on a machine that has come to rest.
type pair struct {
	*chain
	floor           *kernel.Floor
	state           netstate.State
	low, adds, dels kernel.Clock
}

func newPair(tb testing.TB) *pair {
	p := &pair{chain: newChain(tb)}
	p.add(0)
	p.state = p.made
	p.del(0)
	p.k.Settle()
	p.floor = kernel.NewFloor(tb, "cni2")
	return p
}

func (p *pair) turn(i int) {
	p.low.Took(p.floor.Add(p.pod, p.state))
	p.floor.Remove()
	p.adds.Start()
	p.add(i)
	p.adds.Stop()
	p.dels.Start()
	p.del(i)
	p.dels.Stop()
	p.k.Settle()
}

// ratio is how often the floor goes into an ADD, by the medians.
func (p *pair) ratio() float64 { return float64(p.adds.Median()) / float64(p.low.Median()) }

// TestChainIsNearTheFloor: an ADD of the chain takes at most three times what the kernel itself takes for it.
func TestChainIsNearTheFloor(t *testing.T) {
	if sandbox.Racing() {
		t.Skip("the race detector takes its time of one of the two alone")
	}
	const turns, most = 15, 3
	var text string
	// A machine that is busy takes more of the longer one; one quiet try of three is enough.
	for range 3 {
		p := newPair(t)
		for i := range turns {
			p.turn(i + 1)
		}
		text = fmt.Sprintf("ADD %v, DEL %v, floor of ADD %v: %.2f", p.adds.Median(), p.dels.Median(), p.low.Median(), p.ratio())
		if t.Log(text); p.ratio() <= most {
			return
		}
	}
	t.Errorf("%s, want at most %d", text, most)
}

// BenchmarkAddChain is an ADD and a DEL of the chain in this process, all of them: configuration, lock, intent, lease, plan, kernel,
// record; and, turn by turn, the floor, what the kernel itself takes for the same ADD. It reports the median of each, and how
// often the floor goes into an ADD.
func BenchmarkAddChain(b *testing.B) {
	p := newPair(b)
	i := 0
	for b.Loop() {
		i++
		p.turn(i)
	}
	b.ReportMetric(float64(p.low.Median())/1e3, "floor-us")
	b.ReportMetric(float64(p.adds.Median())/1e3, "add-us")
	b.ReportMetric(float64(p.dels.Median())/1e3, "del-us")
	b.ReportMetric(p.ratio(), "floors/add")
}
