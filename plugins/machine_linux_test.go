package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
	"github.com/cleat-cni/cleat/planned"
)

// machine is a node on the real kernel, which takes a namespace for its host.
type machine struct {
	*node
	*traffic.Net
	t      *testing.T
	kernel *kernel.Kernel
	// iptables is the folder of the programs of iptables which the networks of the pods ask for; "" if they don't.
	iptables string
}

func newMachine(t *testing.T) *machine { return newMachineOf(t, "") }

// onEachBackend runs a test on machines with each of the backends.
func onEachBackend(t *testing.T, run func(t *testing.T, m *machine)) {
	t.Helper()
	t.Run("nftables", func(t *testing.T) { run(t, newMachine(t)) })
	for _, kind := range []string{"legacy", "nft"} {
		t.Run("iptables-"+kind, func(t *testing.T) {
			sandbox.Require(t)
			run(t, newMachineOf(t, sandbox.Iptables(t, kind)))
		})
	}
}

// rules lists all that filters and translates packets, by the programs that the pods' networks ask for.
func (m *machine) rules() string {
	m.t.Helper()
	if m.iptables == "" {
		return m.Run(m.Host, "nft -s list ruleset")
	}
	return m.Rules()
}

func newMachineOf(t *testing.T, iptables string) *machine {
	t.Helper()
	m := &machine{t: t, Net: traffic.New(t, iptables), iptables: iptables}
	k, err := kernel.New(kernel.Config{Host: m.Host, Programs: iptables})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	m.kernel, m.node = k, newNode(planned.Wrap[*kernel.Session](k))
	return m
}

// pod is a namespace that is attached, in which servers run.
type pod struct {
	*attachment
	ns *netns.Handle
}

func (m *machine) newPod(i int, network string, ports ...cni.PortMapping) *pod {
	ns := sandbox.Namespace(m.t)
	if m.iptables != "" {
		network = strings.NewReplacer(`"ipMasq":true`, `"ipMasq":true,"ipMasqBackend":"iptables"`,
			`"type":"portmap"`, `"type":"portmap","backend":"iptables"`, `"type":"firewall"`, `"type":"firewall","backend":"iptables"`).Replace(network)
	}
	return &pod{&attachment{network: network, pod: i, netns: ns.Path(), ports: ports}, ns}
}

// attach makes a pod that is attached and serves on these addresses ("tcp :80").
func (m *machine) attach(p *pod, serve ...string) *pod {
	m.t.Helper()
	m.add(m.t, p.attachment)
	for _, s := range serve {
		network, addr, _ := strings.Cut(s, " ")
		m.Serve(p.ns, network, addr, fmt.Sprintf("pod%d", p.pod))
	}
	return p
}

// call is a traffic.Call, written without the names of its members.
type call traffic.Call

func (m *machine) expect(t *testing.T, calls []call) {
	t.Helper()
	for _, c := range calls {
		m.Expect(t, traffic.Call(c))
	}
}

// made is what attachments make on the host, without what comes and goes by itself: the state of the bridge and of up0.
func (m *machine) made() string {
	m.t.Helper()
	var kept []string
	for line := range strings.Lines(m.rules() + m.Run(m.Host, "ip -o addr") + m.Run(m.Host, "ip -o link") +
		m.Run(m.Host, "ip route show table all") + m.Run(m.Host, "ip -6 route show table all")) {
		if !strings.Contains(line, "cni0") && !strings.Contains(line, "up0") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// leavesNothing checks that a DEL, whatever it is told, leaves what the first ADD and DEL left, and returns that.
func (m *machine) leavesNothing(t *testing.T, network string, ports ...cni.PortMapping) (before string) {
	t.Helper()
	for i, forget := range []func(p *pod){
		func(*pod) {},
		func(*pod) {},
		func(p *pod) { p.netns = "" },
		func(p *pod) { p.prev = nil },
		func(p *pod) { p.netns, p.prev, p.ports = "", nil, nil },
	} {
		p := m.attach(m.newPod(2, network, ports...))
		forget(p)
		m.del(t, p.attachment)
		m.del(t, p.attachment)
		if i == 0 {
			before = m.made()
		} else if diff := cmp.Diff(before, m.made()); diff != "" {
			t.Errorf("run %d left something (-before +after):\n%s", i, diff)
		}
	}
	return before
}
