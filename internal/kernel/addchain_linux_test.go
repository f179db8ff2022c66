package kernel_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/netns"
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
	last netstate.State // that was applied
	made netstate.State // by the last ADD
}

// newChain makes one on the host that is the namespace of this process.
func newChain(tb testing.TB) *chain { return newChainOn(tb, nil) }

// newChainOn makes one whose files lie in memory, so that what is measured is this code and the kernel's network, and goes once
// through ADD and DEL, which make what stays.
func newChainOn(tb testing.TB, host *netns.Handle) *chain {
	sandbox.Require(tb)
	dir, err := os.MkdirTemp("/var/lib/cni", "chain")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	c := &chain{tb: tb, pod: sandbox.Namespace(tb).Path()}
	c.cni, c.list, c.k = setting{dir: dir, conf: fmt.Appendf(nil, chainList, dir+"/leases", dir+"/tuning"), host: host,
		around: func(k *kernel.Kernel) planned.Kernel { return witness{planned.Wrap(k), &c.last} }}.runtime(tb)
	c.add(0)
	c.del(0)
	return c
}

func (c *chain) add(i int) {
	c.tb.Helper()
	if _, err := c.cni.AddNetworkList(context.WithoutCancel(c.tb.Context()), c.list, attachment(c.pod, i)); err != nil {
		c.tb.Fatal(err)
	}
	c.made = c.last
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
// than the floor's messages and those named here; and a DEL asks for its own elements alone.
func TestChainMessages(t *testing.T) {
	c := newChain(t)
	got, del := c.counted(t, 1)
	const (
		asked   = 2 // the bridge, its addresses
		knows   = 1 // whether the host knows the address as another's
		carrier = 1 // of the host's end, so that the way is open when the ADD returns
		forgets = 2 // the connections of the last who had the address: those it began, and those it answered
		forward = 2 // whether iptables has a chain FORWARD, in either family
	)
	want := kernel.Stats{Rtnetlink: kernel.FloorMessages + asked + knows + carrier, NftTransactions: 1,
		NftMessages: uint64(len(c.made.Elements)) + forward + forgets}
	if got != want {
		t.Errorf("ADD sends %+v, want %+v", got, want)
	}
	const (
		finds   = 2 // the links of the host
		shuts   = 2 // them
		deletes = 2 // them
		unknown = 2 // the bridge, which shall not know the pod as a neighbour any more
		looks   = 2 // at the generation and the elements: whether others are to be sought, and whose they are
	)
	elements := uint64(len(c.made.Elements))
	want = kernel.Stats{Rtnetlink: finds + shuts + deletes + unknown, NftTransactions: 1, NftMessages: looks*(1+elements) + elements + forgets}
	if del != want {
		t.Errorf("DEL sends %+v, want %+v", del, want)
	}
}

// counted goes through ADD and DEL, neither of which may start a program, and returns what each sent.
func (c *chain) counted(t *testing.T, i int) (add, del kernel.Stats) {
	t.Helper()
	were, start := children(t), c.k.Stats()
	c.add(i)
	between := c.k.Stats()
	c.del(i)
	end := c.k.Stats()
	if ran := children(t); ran != were {
		t.Errorf("programs were started: %+v, before %+v", ran, were)
	}
	since := func(now, before kernel.Stats) kernel.Stats {
		return kernel.Stats{Rtnetlink: now.Rtnetlink - before.Rtnetlink, NftTransactions: now.NftTransactions - before.NftTransactions,
			NftMessages: now.NftMessages - before.NftMessages}
	}
	return since(between, start), since(end, between)
}

// TestChainBesideIptables: that iptables has a chain FORWARD, in which one rule of ours stands for all pods, costs no program
// either once the rule is there; and an ADD puts it back when somebody has flushed the chain.
func TestChainBesideIptables(t *testing.T) {
	t.Setenv("PATH", sandbox.Iptables(t, "nft")+":"+os.Getenv("PATH"))
	host := sandbox.Namespace(t)
	iptables := func(args ...string) string {
		t.Helper()
		var out []byte
		err := host.Do(func() (err error) {
			out, err = exec.Command("iptables", args...).CombinedOutput()
			return err
		})
		if err != nil {
			t.Fatalf("iptables %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	iptables("-P", "FORWARD", "DROP")
	c := newChainOn(t, host)
	for i := range 2 {
		if rules := iptables("-S", "FORWARD"); strings.Count(rules, "-j ACCEPT") != 1 {
			t.Errorf("rules of FORWARD:\n%s", rules)
		}
		if got, _ := c.counted(t, 2*i+1); got.NftTransactions != 1 {
			t.Errorf("ADD sends %+v", got)
		}
		iptables("-F", "FORWARD")
		c.add(2*i + 2)
		c.del(2*i + 2)
	}
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
	low, adds, dels kernel.Clock
}

func newPair(tb testing.TB) *pair {
	p := &pair{chain: newChain(tb)}
	p.k.Settle()
	p.floor = kernel.NewFloor(tb, "cni2")
	return p
}

func (p *pair) turn(i int) {
	p.low.Took(p.floor.Add(p.pod, p.made))
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

// TestChainIsNearTheFloor: an ADD of the chain takes at most two and a half times what the kernel itself takes for it, by the medians.
func TestChainIsNearTheFloor(t *testing.T) {
	const turns, most = 25, 2.5
	for range tries(t) {
		p := newPair(t)
		for i := range turns {
			p.turn(i + 1)
		}
		t.Logf("ADD %v, DEL %v, floor of ADD %v: %.2f", p.adds.Median(), p.dels.Median(), p.low.Median(), p.ratio())
		if p.ratio() <= most || !sandbox.Timed() {
			return
		}
	}
	t.Errorf("an ADD takes more than %.1f times the floor", most)
}

// tries is how often a time is taken: what else runs on the machine may meet the one side more than the other, and one quiet try of
// three is enough.
func tries(t *testing.T) int {
	t.Helper()
	if sandbox.Timed() {
		return 3
	}
	return 1
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
