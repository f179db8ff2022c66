package planned_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// wireConf is the configuration of a plugin made for these tests: a veth pair, with addresses if there's IPAM.
type wireConf struct{ MTU int }

func wire() planned.Definition {
	return planned.Define(planned.Spec[wireConf]{
		Info: plugin.Info{Type: "wire"},
		Parse: func(req *plugin.Request) (wireConf, error) {
			var c wireConf
			_, err := req.Conf.Raw.Decode("mtu", &c.MTU)
			if err == nil && c.MTU < 0 {
				err = cni.Errorf(cni.CodeInvalidConfig, "mtu: %d is negative", c.MTU)
			}
			return c, err
		},
		IPAM: func(wireConf) planned.IPAMUse { return planned.OptionalIPAM },
		Plan: planWire,
	})
}

func planWire(c wireConf, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
	if in.Conf.Raw != nil {
		if _, bad := in.Conf.Raw.Get("failPlan"); bad && in.Verb == cni.VerbAdd {
			return planned.Plan{}, cni.Errorf(cni.CodeInvalidConfig, "failPlan: as asked")
		}
	}
	host := in.Owner().HostName("veth")
	p := planned.Plan{
		State: netstate.State{Links: []netstate.Link{
			{Place: netstate.Host, Name: host, Kind: "veth", Peer: in.IfName, PeerPlace: netstate.Pod, MTU: c.MTU},
			{Place: netstate.Pod, Name: in.IfName, Kind: "veth", Peer: host, PeerPlace: netstate.Host, MTU: c.MTU},
		}},
		Result: &cni.Result{Interfaces: []cni.Interface{{Name: host}, {Name: in.IfName, Sandbox: in.NetNS}}},
	}
	if in.IPAM == nil {
		return p, nil
	}
	for _, ip := range in.IPAM.IPs {
		p.State.Addrs = append(p.State.Addrs, netstate.Addr{Place: netstate.Pod, Dev: in.IfName, Prefix: ip.Address})
		p.State.Routes = append(p.State.Routes, netstate.Route{Place: netstate.Pod, Dev: in.IfName,
			Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: ip.Gateway})
		ip.Interface = cni.Some(1)
		p.Result.IPs = append(p.Result.IPs, ip)
	}
	return p, nil
}

// tag is a chained plugin: an element for each address of prevResult.
func tag() planned.Definition {
	return planned.Define(planned.Spec[struct{}]{
		Info:    plugin.Info{Type: "tag"},
		Chained: true,
		Parse:   func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		Plan: func(_ struct{}, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
			s := netstate.State{Tables: []netstate.Table{{Family: "inet", Name: "cleat",
				Sets: []netstate.Set{{Name: "tags", Key: []string{"ipv4_addr"}}}}}}
			if in.Prev != nil {
				for _, ip := range in.Prev.IPs {
					s.Elements = append(s.Elements, netstate.Element{Family: "inet", Table: "cleat", Set: "tags",
						Match: []string{ip.Address.Addr().String()}, Owner: in.Owner()})
				}
			}
			return planned.Plan{State: s}, nil
		},
	})
}

func pool() planned.Definition {
	store := func(req *plugin.Request) netstate.Pool { return netstate.Pool{Network: req.Conf.Name, Dir: "/leases"} }
	return planned.DefineIPAM(planned.IPAMSpec[struct{}]{
		Info:  plugin.Info{Type: "pool"},
		Parse: func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		Allocation: func(_ struct{}, req *plugin.Request) (planned.Allocation, error) {
			p := store(req)
			p.Sets = [][]netstate.Range{{{Subnet: netip.MustParsePrefix("10.1.0.0/24"), Start: netip.MustParseAddr("10.1.0.2"),
				End: netip.MustParseAddr("10.1.0.3"), Gateway: netip.MustParseAddr("10.1.0.1")}}}
			return planned.Allocation{Pool: p}, nil
		},
		Store: store,
	})
}

// leases is a store in memory that gives the addresses of the first range in order.
type leases struct {
	mu   sync.Mutex
	held map[netip.Addr]netstate.Owner
}

func (l *leases) Reserve(_ context.Context, p netstate.Pool, o netstate.Owner, dryRun bool) ([]netstate.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range l.held {
		if have == o {
			return nil, fmt.Errorf("lease of %s: %w", o, netstate.ErrExist)
		}
	}
	r := p.Sets[0][0]
	for a := r.Start; a.Compare(r.End) <= 0; a = a.Next() {
		if _, taken := l.held[a]; !taken {
			if !dryRun {
				l.held[a] = o
			}
			return []netstate.Lease{{Network: p.Network, Addr: a, Store: p.Dir, Owner: o}}, nil
		}
	}
	return nil, fmt.Errorf("range %s-%s: %w", r.Start, r.End, netstate.ErrExhausted)
}

func (l *leases) Held(_ context.Context, p netstate.Pool, o netstate.Owner) ([]netstate.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []netstate.Lease
	for a, have := range l.held {
		if have == o {
			list = append(list, netstate.Lease{Network: p.Network, Addr: a, Store: p.Dir, Owner: o})
		}
	}
	return list, nil
}

func (l *leases) Release(_ context.Context, _ netstate.Pool, o netstate.Owner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, have := range l.held {
		if have == o {
			delete(l.held, a)
		}
	}
	return nil
}

func (l *leases) Collect(_ context.Context, p netstate.Pool, valid []netstate.Owner, dryRun bool) ([]netstate.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var freed []netstate.Lease
	for a, o := range l.held {
		keep := false
		for _, v := range valid {
			keep = keep || v == o
		}
		if !keep {
			freed = append(freed, netstate.Lease{Network: p.Network, Addr: a, Owner: o})
			if !dryRun {
				delete(l.held, a)
			}
		}
	}
	return freed, nil
}

// finder finds the pool plugin, and others by type.
type finder map[string]plugin.Plugin

func (f finder) Find(typ string, _ []string) (plugin.Plugin, error) {
	if p, ok := f[typ]; ok {
		return p, nil
	}
	return nil, cni.Errorf(cni.CodeInvalidConfig, "find plugin %s: not there", typ)
}

// world is an engine with all that it acts on.
type world struct {
	engine *planned.Engine
	kernel *kerneltest.Memory
	leases *leases
	finder finder
}

func newWorld(fault func(string) error) *world {
	w := &world{
		kernel: kerneltest.NewMemory(kerneltest.Config{Fault: fault}),
		leases: &leases{held: map[netip.Addr]netstate.Owner{}},
		finder: finder{},
	}
	w.engine = planned.NewEngine(planned.Config{Kernel: w.kernel, Leases: w.leases, Delegate: w.finder})
	w.finder["pool"] = w.engine.Plugin(pool())
	return w
}

const withPool = `{"cniVersion":"1.1.0","name":"n","type":"wire","mtu":1400,"ipam":{"type":"pool"}}`

func request(t *testing.T, verb cni.Verb, ns, conf string, prev *cni.Result) *plugin.Request {
	t.Helper()
	if prev != nil {
		o, err := cni.ParseObject([]byte(conf))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := prev.Encode("1.1.0")
		if err != nil {
			t.Fatal(err)
		}
		o.Set("prevResult", json.RawMessage(raw))
		conf = string(o.Bytes())
	}
	env := plugin.Env{Command: string(verb), ContainerID: "c1", NetNS: ns, IfName: "eth0", Path: "/p"}
	req, err := plugin.NewRequest(plugin.Info{Type: "wire"}, env, []byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// TestIPAMThatIsNone: a plugin that itself delegates is not asked for addresses, since it would ask itself; DEL is served.
func TestIPAMThatIsNone(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	before := w.kernel.Dump()
	p := w.engine.Plugin(wire())
	w.finder["wire"] = p
	conf := strings.Replace(withPool, `"pool"`, `"wire"`, 1)
	_, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, conf, nil))
	if err == nil || !strings.Contains(err.Error(), "ipam.type: wire gives no addresses by itself") {
		t.Errorf("ADD: error %v", err)
	}
	if err := p.Status(t.Context(), request(t, cni.VerbStatus, "", conf, nil)); err == nil {
		t.Error("STATUS: no error")
	}
	if err := p.Del(t.Context(), request(t, cni.VerbDel, ns, conf, nil)); err != nil {
		t.Errorf("DEL: %v", err)
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" {
		t.Errorf("left (-before +after)\n%s", diff)
	}
}

func TestLife(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	before := w.kernel.Dump()
	p := w.engine.Plugin(wire())
	res, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := res.IPs[0].Address.String(); got != "10.1.0.2/24" {
		t.Errorf("address %s", got)
	}
	if err := p.Check(t.Context(), request(t, cni.VerbCheck, ns, withPool, res)); err != nil {
		t.Errorf("CHECK right after ADD: %v", err)
	}
	for range 2 { // the second time nothing is there
		if err := p.Del(t.Context(), request(t, cni.VerbDel, ns, withPool, res)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" {
		t.Errorf("left after DEL (-before +after)\n%s", diff)
	}
	if len(w.leases.held) != 0 {
		t.Errorf("leases left: %v", w.leases.held)
	}
}

func TestListInOnePass(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	before := w.kernel.Dump()
	steps := func(verb cni.Verb, prev *cni.Result) []planned.Step {
		return []planned.Step{
			{Def: wire(), Req: request(t, verb, ns, withPool, prev)},
			{Def: tag(), Req: request(t, verb, ns, `{"cniVersion":"1.1.0","name":"n","type":"tag"}`, prev)},
		}
	}
	plans, err := w.engine.PlanList(t.Context(), steps(cni.VerbAdd, nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" || len(w.leases.held) != 0 {
		t.Errorf("plan changed something: %s%v", diff, w.leases.held)
	}
	if text := plans[0].State.String() + plans[1].State.String(); !strings.Contains(text, "host lease 10.1.0.2 ") || !strings.Contains(text, "element 10.1.0.2") {
		t.Errorf("plan:\n%s", text)
	}
	results, err := w.engine.AddList(t.Context(), steps(cni.VerbAdd, nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || len(results[1].IPs) != 1 || len(results[1].Interfaces) != 2 {
		t.Errorf("the chained plugin did not pass prevResult on: %+v", results)
	}
	if !strings.Contains(w.kernel.Dump(), "element 10.1.0.2") {
		t.Error("the element is not there")
	}
	if err := w.engine.DelList(t.Context(), steps(cni.VerbDel, results[1])); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(w.kernel.Dump(), "element") || strings.Contains(w.kernel.Dump(), "veth") || len(w.leases.held) != 0 {
		t.Errorf("left: %s%v", w.kernel.Dump(), w.leases.held)
	}
	// Without prevResult the element is found by its owner's mark.
	if _, err := w.engine.AddList(t.Context(), steps(cni.VerbAdd, nil)); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.DelList(t.Context(), steps(cni.VerbDel, nil)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(w.kernel.Dump(), "element") || strings.Contains(w.kernel.Dump(), "veth") || len(w.leases.held) != 0 {
		t.Errorf("left after DEL without prevResult: %s%v", w.kernel.Dump(), w.leases.held)
	}
}

func TestFailedAddLeavesNothing(t *testing.T) {
	for _, tc := range []struct {
		name, conf string
		fault      string // beginning of the step that fails
		code       cni.Code
	}{
		{"plan", `{"cniVersion":"1.1.0","name":"n","type":"wire","failPlan":1,"ipam":{"type":"pool"}}`, "", 7},
		{"link", withPool, "make host link", 5},
		{"address", withPool, "make pod  addr", 5},
		{"route", withPool, "make pod  route", 5},
		{"config", `{"cniVersion":"1.1.0","name":"n","type":"wire","mtu":-1,"ipam":{"type":"pool"}}`, "", 7},
		{"no-ipam-plugin", `{"cniVersion":"1.1.0","name":"n","type":"wire","ipam":{"type":"none"}}`, "", 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hit := tc.fault == ""
			w := newWorld(func(step string) error {
				if tc.fault != "" && strings.HasPrefix(step, tc.fault) {
					hit = true
					return errors.New("as asked")
				}
				return nil
			})
			ns := w.kernel.NewPod()
			before := w.kernel.Dump()
			_, err := w.engine.Plugin(wire()).Add(t.Context(), request(t, cni.VerbAdd, ns, tc.conf, nil))
			if cni.CodeOf(err) != tc.code || cni.AsError(err).Plugin != "wire" {
				t.Errorf("error %v with code %d, want %d", err, cni.CodeOf(err), tc.code)
			}
			if !hit {
				t.Errorf("no step %q", tc.fault)
			}
			if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" || len(w.leases.held) != 0 {
				t.Errorf("left: %s%v", diff, w.leases.held)
			}
		})
	}
}

func TestSecondAddKeepsTheFirst(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	p := w.engine.Plugin(wire())
	if _, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil)); err != nil {
		t.Fatal(err)
	}
	before := w.kernel.Dump()
	if _, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil)); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("second ADD: %v", err)
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" || len(w.leases.held) != 1 {
		t.Errorf("the second ADD changed: %s%v", diff, w.leases.held)
	}
}

func TestB035AddressOutlivesAFailedRemoval(t *testing.T) {
	fail := false
	w := newWorld(func(step string) error {
		if fail && strings.HasPrefix(step, "remove") {
			return errors.New("device is busy")
		}
		return nil
	})
	ns := w.kernel.NewPod()
	p := w.engine.Plugin(wire())
	res, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil))
	if err != nil {
		t.Fatal(err)
	}
	fail = true
	if err := p.Del(t.Context(), request(t, cni.VerbDel, ns, withPool, res)); err == nil || len(w.leases.held) != 1 {
		t.Errorf("DEL: %v, leases %v: an address was freed while it was still configured", err, w.leases.held)
	}
	fail = false
	if err := p.Del(t.Context(), request(t, cni.VerbDel, ns, withPool, res)); err != nil || len(w.leases.held) != 0 {
		t.Errorf("DEL again: %v, leases %v", err, w.leases.held)
	}
}

func TestDelWhateverIsLeft(t *testing.T) {
	for _, tc := range []struct {
		name, conf, ns string
	}{
		{"netns-gone", withPool, "gone"},
		{"netns-empty", withPool, ""},
		{"netns-hosts-own", withPool, kerneltest.HostPath},
		{"bad-config", strings.Replace(withPool, "1400", "-1", 1), "pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(nil)
			hostOnly := w.kernel.Dump()
			ns := w.kernel.NewPod()
			p := w.engine.Plugin(wire())
			if _, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil)); err != nil {
				t.Fatal(err)
			}
			left := map[string]string{"gone": "/run/netns/gone", "pod": ns}[tc.ns]
			if left == "" {
				left = tc.ns
			}
			if err := p.Del(t.Context(), request(t, cni.VerbDel, left, tc.conf, nil)); err != nil {
				t.Fatal(err)
			}
			if err := w.kernel.RemovePod(ns); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(hostOnly, w.kernel.Dump()); diff != "" || len(w.leases.held) != 0 {
				t.Errorf("left: %s%v", diff, w.leases.held)
			}
		})
	}
}

func TestCheckNamesTheRoute(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	p := w.engine.Plugin(wire())
	res, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil))
	if err != nil {
		t.Fatal(err)
	}
	route := netstate.Route{Place: netstate.Pod, Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.1.0.1"), Dev: "eth0"}
	if err := w.kernel.DelRoute(ns, route); err != nil {
		t.Fatal(err)
	}
	err = p.Check(t.Context(), request(t, cni.VerbCheck, ns, withPool, res))
	found, ok := errors.AsType[*planned.DifferencesError](err)
	if !ok || len(found.Differences) != 1 || found.Differences[0].Want != route.String() {
		t.Errorf("CHECK: %v", err)
	}
	if err := w.leases.Release(t.Context(), netstate.Pool{}, netstate.Owner{Network: "n", ContainerID: "c1", IfName: "eth0"}); err != nil {
		t.Fatal(err)
	}
	err = p.Check(t.Context(), request(t, cni.VerbCheck, ns, withPool, res))
	if err == nil || !strings.Contains(err.Error(), "lease 10.1.0.2") {
		t.Errorf("CHECK without the lease: %v", err)
	}
}

func TestNamespacesRefused(t *testing.T) {
	w := newWorld(nil)
	p := w.engine.Plugin(wire())
	for name, path := range map[string]string{"host": kerneltest.HostPath, "file": w.kernel.NewFile(), "missing": "/run/netns/none"} {
		_, err := p.Add(t.Context(), request(t, cni.VerbAdd, path, withPool, nil))
		if cni.CodeOf(err) != cni.CodeInvalidNetNS || len(w.leases.held) != 0 {
			t.Errorf("%s: %v, leases %v", name, err, w.leases.held)
		}
	}
}

func TestGC(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	before := w.kernel.Dump()
	p := w.engine.Plugin(wire())
	if _, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil)); err != nil {
		t.Fatal(err)
	}
	added := w.kernel.Dump()
	conf := func(list string) string { return strings.Replace(withPool, `"mtu":1400`, list, 1) }
	if err := p.GC(t.Context(), request(t, cni.VerbGC, "", conf(`"x":1`), nil)); cni.CodeOf(err) != cni.CodeInvalidConfig {
		t.Errorf("GC without a list: %v", err)
	}
	valid := conf(`"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]`)
	if err := p.GC(t.Context(), request(t, cni.VerbGC, "", valid, nil)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(added, w.kernel.Dump()); diff != "" || len(w.leases.held) != 1 {
		t.Errorf("GC took a valid attachment: %s", diff)
	}
	if err := p.GC(t.Context(), request(t, cni.VerbGC, "", conf(`"cni.dev/valid-attachments":null`), nil)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" || len(w.leases.held) != 0 {
		t.Errorf("GC left: %s%v", diff, w.leases.held)
	}
}

func TestStatus(t *testing.T) {
	w := newWorld(nil)
	p := w.engine.Plugin(wire())
	req := request(t, cni.VerbStatus, "", withPool, nil)
	if err := p.Status(t.Context(), req); err != nil {
		t.Errorf("STATUS with free addresses: %v", err)
	}
	for i, a := range []string{"10.1.0.2", "10.1.0.3"} {
		w.leases.held[netip.MustParseAddr(a)] = netstate.Owner{ContainerID: fmt.Sprint(i)}
	}
	if err := p.Status(t.Context(), req); cni.CodeOf(err) != cni.CodeNotAvailable || !strings.Contains(err.Error(), "10.1.0.2") {
		t.Errorf("STATUS with none: %v", err)
	}
}

// foreign is an IPAM plugin of somebody else.
type foreign struct {
	plugin.Plugin
	dels int
}

func (f *foreign) Add(context.Context, *plugin.Request) (*cni.Result, error) {
	return nil, errors.New("no lease from server")
}

func (f *foreign) Del(_ context.Context, req *plugin.Request) error {
	f.dels++
	if req.Verb != cni.VerbDel {
		return fmt.Errorf("verb %s", req.Verb)
	}
	return nil
}

func TestDelegateFailureGetsItsDel(t *testing.T) {
	w := newWorld(nil)
	f := &foreign{}
	w.finder["theirs"] = f
	ns := w.kernel.NewPod()
	_, err := w.engine.Plugin(wire()).Add(t.Context(), request(t, cni.VerbAdd, ns, strings.Replace(withPool, `"pool"`, `"theirs"`, 1), nil))
	if err == nil || f.dels != 1 {
		t.Errorf("error %v, the delegate's DEL was called %d times", err, f.dels)
	}
	plans, err := w.engine.PlanList(t.Context(), []planned.Step{{Def: wire(), Req: request(t, cni.VerbAdd, ns, strings.Replace(withPool, `"pool"`, `"theirs"`, 1), nil)}})
	if err != nil || len(plans[0].Notes) != 1 {
		t.Errorf("plan: %+v, %v", plans, err)
	}
}

func TestChainedNeedsPrevResult(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	_, err := w.engine.Plugin(tag()).Add(t.Context(), request(t, cni.VerbAdd, ns, `{"cniVersion":"1.1.0","name":"n","type":"tag"}`, nil))
	if cni.CodeOf(err) != cni.CodeInvalidConfig {
		t.Errorf("ADD without prevResult: %v", err)
	}
}

// giving is an IPAM plugin of somebody else that works.
type giving struct{ foreign }

func (*giving) Add(context.Context, *plugin.Request) (*cni.Result, error) {
	return &cni.Result{IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.9/24"), Gateway: netip.MustParseAddr("10.1.0.1")}}}, nil
}

func TestSecondAddKeepsTheAddressesOfForeignIPAM(t *testing.T) {
	w := newWorld(nil)
	g := &giving{}
	w.finder["theirs"] = g
	ns := w.kernel.NewPod()
	p := w.engine.Plugin(wire())
	conf := strings.Replace(withPool, `"pool"`, `"theirs"`, 1)
	if _, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, conf, nil)); err != nil {
		t.Fatal(err)
	}
	_, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, conf, nil))
	if !errors.Is(err, netstate.ErrExist) || cni.CodeOf(err) != cni.CodeInvalidEnvironment || g.dels != 0 {
		t.Errorf("second ADD: %v; the IPAM plugin got %d DELs, which free the first's addresses", err, g.dels)
	}
}

func TestResultWithoutForm(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	before := w.kernel.Dump()
	// Below 0.3.0 a result needs an address.
	_, err := w.engine.Plugin(wire()).Add(t.Context(), request(t, cni.VerbAdd, ns, `{"cniVersion":"0.2.0","name":"n","type":"wire"}`, nil))
	if cni.CodeOf(err) != cni.CodeIncompatibleVersion {
		t.Errorf("ADD: %v", err)
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" {
		t.Errorf("left by the refused ADD (-before +after)\n%s", diff)
	}
}
