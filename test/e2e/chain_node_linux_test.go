package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugins"
)

// chain is the n-th network with the whole chain, on the bridge cni<n>: two families, with what filters and translates packets made by
// $BACKEND, a policy for who may call a pod, and limits and a MAC for the pods that ask for them. tuning sets a value that bridge sets too.
const chain = `{"cniVersion":"1.1.0","name":"$NAME","plugins":[
  {"type":"bridge","bridge":"cni$N","isDefaultGateway":true,"ipMasq":true,"ipMasqBackend":"$BACKEND","hairpinMode":true,"macspoofchk":true,
   "ipam":{"type":"host-local","dataDir":"$DATA/leases","ranges":[[{"subnet":"10.8$N.0.0/16"}],[{"subnet":"fd00:8$N::/64"}]]}},
  {"type":"portmap","backend":"$BACKEND","capabilities":{"portMappings":true}},
  {"type":"firewall","backend":"$BACKEND","ingressPolicy":"$POLICY"},
  {"type":"bandwidth","capabilities":{"bandwidth":true}},
  {"type":"tuning","dataDir":"$DATA/tuning","mtu":1400,"promisc":true,"capabilities":{"mac":true},
   "sysctl":{"net.core.somaxconn":"500","net.ipv6.conf.IFNAME.accept_ra":"2"}}]}`

// chainMTU is that of the pods, by tuning.
const chainMTU = 1400

// chainNode is a machine with Docker's rules, whose pods are attached by the program cleat to networks with the chain.
type chainNode struct {
	*traffic.Net
	t     *testing.T
	cleat string // the command, with its flags
	data  string // folder of what is kept
}

// pod is a namespace that is attached, or was.
type pod struct {
	ns      *netns.Handle
	id      string
	network string
	caps    string    // CAP_ARGS at ADD; may be empty
	addr    [2]string // by family
}

// onEachChain runs a test on a node for each backend, with the plugins built in and as programs.
func onEachChain(t *testing.T, run func(t *testing.T, n *chainNode, backend string)) {
	t.Helper()
	sandbox.Require(t)
	bin := build(t)
	for _, backend := range []string{"nftables", "iptables"} {
		for form, flag := range map[string]string{"built-in": "--builtin", "programs": "--exec-only"} {
			t.Run(backend+"-"+form, func(t *testing.T) {
				t.Parallel()
				run(t, newChainNode(t, bin, backend, flag), backend)
			})
		}
	}
}

func newChainNode(t *testing.T, bin, backend, form string) *chainNode {
	t.Helper()
	n := &chainNode{Net: traffic.New(t, sandbox.Iptables(t, "nft")), t: t, data: t.TempDir()}
	folder := func(name string) string {
		path := filepath.Join(n.data, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	conf, programs := folder("net.d"), folder("plugins")
	for _, d := range plugins.All() {
		if err := os.Symlink(filepath.Join(bin, "cleat-cni"), filepath.Join(programs, d.Info.Type)); err != nil {
			t.Fatal(err)
		}
	}
	for i, policy := range []string{"open", "same-bridge", "isolated"} {
		text := strings.NewReplacer("$NAME", policy, "$N", fmt.Sprint(i), "$BACKEND", backend, "$DATA", n.data, "$POLICY", policy).Replace(chain)
		if err := os.WriteFile(filepath.Join(conf, policy+".conflist"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n.cleat = fmt.Sprintf("env PATH=%s:%s %s/cleat %s --conf-dir %s --plugin-dir %s --state-dir %s ",
		n.Programs, os.Getenv("PATH"), bin, form, conf, programs, folder("state"))
	folder("leases")
	folder("tuning")
	n.DockerHost()
	return n
}

// newPod makes a pod that serves and is not attached.
func (n *chainNode) newPod(network, id string) *pod {
	p := &pod{ns: sandbox.Namespace(n.t), id: id, network: network}
	n.Serve(p.ns, "tcp", ":80", id)
	return p
}

// add attaches a pod with options of cleat add.
func (n *chainNode) add(p *pod, options string) {
	n.t.Helper()
	out := n.Run(n.Host, "env CAP_ARGS="+p.caps+" "+n.cleat+"add -o json "+p.network+" "+p.ns.Path()+" --id "+p.id+" "+options)
	res, err := cni.DecodeResult([]byte(out), cni.Current)
	if err != nil || len(res.IPs) != 2 {
		n.t.Fatalf("result of %s: %v\n%s", p.id, err, out)
	}
	for i, ip := range res.IPs {
		p.addr[i] = ip.Address.Addr().String()
	}
}

func (n *chainNode) del(p *pod) {
	n.t.Helper()
	n.Run(n.Host, n.cleat+"del "+p.network+" "+p.ns.Path()+" --id "+p.id)
}

// check returns what cleat check finds.
func (n *chainNode) check(p *pod) string {
	out, err := n.Try(n.Host, n.cleat+"check "+p.network+" "+p.ns.Path()+" --id "+p.id)
	if err != nil && out == "" {
		out = err.Error()
	}
	return out
}

// hostEnd is the pod's interface on the host, and ifb the one that limits what it sends.
func (p *pod) hostEnd() string { return p.owner().HostName("veth") }
func (p *pod) ifb() string     { return p.owner().HostName("bwp") }

func (p *pod) owner() netstate.Owner {
	return netstate.Owner{Network: p.network, ContainerID: p.id, IfName: "eth0"}
}

// passing is what differs from one look to the next by itself: counters, dates, and how many connections are tracked.
var passing = regexp.MustCompile(`counter packets \d+ bytes \d+|\[\d+:\d+\]|(?m:^#.*$)|(?m:^.*conntrack_count.*$)`)

// state is all of the host and of the pods that attaching changes, when no pod is attached.
func (n *chainNode) state(pods ...*pod) string {
	n.t.Helper()
	// The kernel tells a moment later that a bridge has no ports any more.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		bridges := strings.Split(strings.TrimSpace(n.Run(n.Host, "ip -o link show type bridge")), "\n")
		if !slices.ContainsFunc(bridges, func(line string) bool { return !strings.Contains(line, "NO-CARRIER") }) {
			break
		}
	}
	var b strings.Builder
	list := func(ns *netns.Handle, lines ...string) {
		for _, line := range lines {
			fmt.Fprintf(&b, "=== %s\n%s", line, passing.ReplaceAllString(n.Run(ns, line), ""))
		}
	}
	list(n.Host, "nft list ruleset", n.Programs+"/iptables-save", n.Programs+"/ip6tables-save", "ip link", "ip addr show scope global", "tc qdisc",
		"sysctl -a --pattern ^net", "ls -AR "+n.data+"/leases "+n.data+"/state "+n.data+"/tuning")
	for _, p := range pods {
		list(p.ns, "ip link", "tc qdisc", "sysctl -a --pattern ^net")
	}
	return b.String()
}
