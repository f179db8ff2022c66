package upgrade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

// node is a host on which both releases run.
type node struct {
	t     *testing.T
	host  *netns.Handle
	dir   string
	list  *libcni.NetworkConfigList
	this  *release
	later *release
}

// release is this module with a schema of its own.
type release struct {
	*libcni.CNI
	runner *builtin.Runner
}

const network = `{"cniVersion":"1.1.0","name":"pods","plugins":[
  {"type":"bridge","bridge":"cni0","isDefaultGateway":true,"ipMasq":true,
   "ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.88.0.0/24"}]]}},
  {"type":"portmap","capabilities":{"portMappings":true}}]}`

func newNode(t *testing.T) *node {
	t.Helper()
	sandbox.Require(t)
	for _, program := range []string{"ip", "nft", "ping"} {
		if _, err := exec.LookPath(program); err != nil {
			sandbox.Need(t, program, err.Error())
		}
	}
	n := &node{t: t, host: sandbox.Namespace(t), dir: t.TempDir()}
	n.run(n.host, "ip link set lo up")
	var err error
	if n.list, err = libcni.ConfListFromBytes(fmt.Appendf(nil, network, n.leases(""))); err != nil {
		t.Fatal(err)
	}
	n.this, n.later = n.release(netstate.Schema), n.release(netstate.Schema+1)
	return n
}

func (n *node) leases(name string) string { return filepath.Join(n.dir, "leases", name) }

func (n *node) release(schema int) *release {
	n.t.Helper()
	k, err := kernel.New(kernel.Config{Host: n.host, Schema: schema})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := k.Close(); err != nil {
			n.t.Error(err)
		}
	})
	store, err := leases.New(leases.Config{StateDir: filepath.Join(n.dir, "state")})
	if err != nil {
		n.t.Fatal(err)
	}
	r := &release{runner: builtin.New(builtin.Config{
		Plugins: plugins.All(), Kernel: planned.Wrap(k), Leases: store, Originals: originals.Store{}, Mode: builtin.BuiltinOnly, Answers: k.Answers,
		Stderr: os.Stderr, Log: slog.New(slog.DiscardHandler),
	})}
	r.CNI, err = libcni.New(libcni.Config{
		PluginDirs: []string{n.dir}, StateDir: filepath.Join(n.dir, "state"), LockDir: filepath.Join(n.dir, "lock"), Runner: r.runner, Schema: schema,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

// run runs a command line, split at blanks, and returns what it prints.
func (n *node) run(ns *netns.Handle, line string) string {
	n.t.Helper()
	words := strings.Fields(line)
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = exec.Command(words[0], words[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		n.t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// pod is an attachment.
type pod struct {
	ns *netns.Handle
	rt *libcni.RuntimeConf
	ip netip.Addr
}

func (n *node) newPod(id string, port int) *pod {
	ns := sandbox.Namespace(n.t)
	rt := &libcni.RuntimeConf{ContainerID: id, NetNS: ns.Path(), IfName: "eth0"}
	if port != 0 {
		rt.CapabilityArgs = map[string]any{"portMappings": []cni.PortMapping{{HostPort: port, ContainerPort: 80, Protocol: "tcp"}}}
	}
	return &pod{ns: ns, rt: rt}
}

func (n *node) add(r *release, p *pod) *pod {
	n.t.Helper()
	res, err := r.AddNetworkList(n.t.Context(), n.list, p.rt)
	if err != nil {
		n.t.Fatalf("ADD of %s: %v", p.rt.ContainerID, err)
	}
	p.ip = res.IPs[0].Address.Addr()
	return p
}

// state is all that there is on the host: links with their marks, rules, leases, records.
func (n *node) state() string {
	n.t.Helper()
	// The counters of the links' states change; what they are called and whose they are does not.
	var text strings.Builder
	text.WriteString(n.run(n.host, "ip -o link show type veth") + n.run(n.host, "nft -s list ruleset"))
	for _, dir := range []string{n.leases("pods"), filepath.Join(n.dir, "state", "results")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			n.t.Fatal(err)
		}
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				n.t.Fatal(err)
			}
			text.WriteString(e.Name() + ": " + string(data) + "\n")
		}
	}
	return text.String()
}

// pings runs a ping in a pod until the function that it returns is called, which gives what ping sums up.
func (n *node) pings(from *pod, to netip.Addr) (stop func() string) {
	n.t.Helper()
	var out strings.Builder
	cmd := exec.Command("ping", "-i", "0.02", "-W", "1", to.String())
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := from.ns.Do(cmd.Start); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, if all went well
	return func() string {
		n.t.Helper()
		if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
			n.t.Errorf("ping: %v", err)
		}
		return out.String()
	}
}

// TestUpgrade: the later release checks, repairs, collects and deletes what this one has made.
func TestUpgrade(t *testing.T) {
	n := newNode(t)
	a, b, c := n.add(n.this, n.newPod("a", 8080)), n.add(n.this, n.newPod("b", 0)), n.add(n.this, n.newPod("c", 8082))
	stop := n.pings(b, a.ip)
	ctx := t.Context()
	for _, p := range []*pod{a, b, c} {
		if err := n.later.CheckNetworkList(ctx, n.list, p.rt); err != nil {
			t.Errorf("CHECK of %s: %v", p.rt.ContainerID, err)
		}
	}
	d := n.add(n.later, n.newPod("d", 8083))
	n.run(c.ns, "ip route flush table main")
	if fixed, err := n.later.RepairNetworkList(ctx, n.list, c.rt, libcni.RepairArgs{}); err != nil || len(fixed) == 0 {
		t.Errorf("repair: %v, %v", fixed, err)
	}
	if freed, err := n.later.CollectNetworkList(ctx, n.list, libcni.CollectArgs{}); err != nil || len(freed) > 0 {
		t.Errorf("GC frees %v, %v", freed, err)
	}
	if _, err := n.later.AddNetworkList(ctx, n.list, n.newPod("e", 8080).rt); !errors.Is(err, netstate.ErrInUse) {
		t.Errorf("a port that the earlier release gave away: %v", err)
	}
	n.run(d.ns, "ping -q -c 1 -W 2 "+a.ip.String())
	if text := stop(); !strings.Contains(text, " 0% packet loss") {
		t.Errorf("traffic meanwhile:\n%s", text)
	}
	for _, p := range []*pod{a, b, c, d} {
		if err := n.later.DelNetworkList(ctx, n.list, p.rt); err != nil {
			t.Errorf("DEL of %s: %v", p.rt.ContainerID, err)
		}
	}
	n.expectNothing()
}

// TestDowngrade: this release leaves alone what the later one has made, and says so, while what is its own goes on.
func TestDowngrade(t *testing.T) {
	n := newNode(t)
	ctx := t.Context()
	old := n.add(n.this, n.newPod("old", 8080))
	later, gone := n.add(n.later, n.newPod("later", 8081)), n.add(n.later, n.newPod("gone", 8082))
	if err := gone.ns.Close(); err != nil { // its namespace ends
		t.Fatal(err)
	}
	for i := 0; i < 500 && strings.Contains(n.run(n.host, "ip -o link show type veth"), "pods gone eth0"); i++ { // each look takes milliseconds
	}
	gone.rt.NetNS = "/nowhere"
	stop := n.pings(old, later.ip)
	before := n.state()
	unchanged := func(what string) {
		t.Helper()
		if diff := cmp.Diff(before, n.state()); diff != "" {
			t.Errorf("%s changed something (-before +after):\n%s", what, diff)
		}
	}
	for _, tc := range []struct {
		name string
		call func(context.Context) error
	}{
		{"check", func(ctx context.Context) error { return n.this.CheckNetworkList(ctx, n.list, later.rt) }},
		{"repair", func(ctx context.Context) error {
			_, err := n.this.RepairNetworkList(ctx, n.list, later.rt, libcni.RepairArgs{})
			return err
		}},
		{"del", func(ctx context.Context) error { return n.this.DelNetworkList(ctx, n.list, later.rt) }},
		{"del-of-one-that-is-gone", func(ctx context.Context) error { return n.this.DelNetworkList(ctx, n.list, gone.rt) }},
		{"add-of-one-that-is-gone", func(ctx context.Context) error {
			rt := *gone.rt
			rt.NetNS = sandbox.Namespace(t).Path()
			_, err := n.this.AddNetworkList(ctx, n.list, &rt)
			return err
		}},
		// Under another runtime, whose records say nothing: one plugin at a time, the last first.
		{"del-by-plugin", func(ctx context.Context) error { return n.delByPlugin(ctx, n.this, later, 1) }},
		{"del-by-the-first-plugin", func(ctx context.Context) error { return n.delByPlugin(ctx, n.this, later, 0) }},
	} {
		err := tc.call(ctx)
		if e := cni.AsError(err); !errors.Is(err, netstate.ErrNewer) || e.Code != cni.CodeTryAgain || e.Hint == "" {
			t.Errorf("%s: error %v", tc.name, err)
		}
		unchanged(tc.name)
	}
	freed, err := n.this.CollectNetworkList(ctx, n.list, libcni.CollectArgs{Unknown: true})
	if err != nil || len(freed) > 0 {
		t.Errorf("GC frees %v, %v", freed, err)
	}
	unchanged("GC")
	all, err := n.this.Attachments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if broken := a.State == libcni.StateBroken && errors.Is(a.Err, netstate.ErrNewer); broken != (a.ContainerID != "old") {
			t.Errorf("%s is %s: %v", a.ContainerID, a.State, a.Err)
		}
	}
	if _, err := n.this.AddNetworkList(ctx, n.list, n.newPod("port", 8081).rt); !errors.Is(err, netstate.ErrInUse) {
		t.Errorf("a port that the later release gave away: %v", err)
	}
	next := n.add(n.this, n.newPod("next", 8083))
	n.run(next.ns, "ping -q -c 1 -W 2 "+later.ip.String())
	if err := n.this.CheckNetworkList(ctx, n.list, old.rt); err != nil {
		t.Errorf("CHECK of its own: %v", err)
	}
	if err := n.this.DelNetworkList(ctx, n.list, next.rt); err != nil {
		t.Errorf("DEL of its own: %v", err)
	}
	if text := stop(); !strings.Contains(text, " 0% packet loss") {
		t.Errorf("traffic meanwhile:\n%s", text)
	}
	for _, p := range []*pod{later, gone, old} {
		if err := n.later.DelNetworkList(ctx, n.list, p.rt); err != nil {
			t.Errorf("DEL of %s by the later release: %v", p.rt.ContainerID, err)
		}
	}
	n.expectNothing()
}

// delByPlugin calls DEL of one plugin of the list, as a runtime does that starts programs.
func (n *node) delByPlugin(ctx context.Context, r *release, p *pod, i int) error {
	conf := n.list.Plugins[i].Network
	_, err := r.runner.Run(ctx, []libcni.Call{{
		Verb: cni.VerbDel, Type: conf.Type, ContainerID: p.rt.ContainerID, NetNS: p.rt.NetNS, IfName: p.rt.IfName, Dirs: []string{n.dir},
		Conf: conf.Request(n.list.Name, n.list.CNIVersion, nil),
	}})
	return err
}

// expectNothing: no attachment has left anything.
func (n *node) expectNothing() {
	n.t.Helper()
	text := n.state()
	for _, word := range []string{"veth", "elements", "10.88.0.2:", "pods-"} {
		if strings.Contains(text, word) {
			n.t.Errorf("%s is left:\n%s", word, text)
		}
	}
}
