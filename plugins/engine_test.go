package plugins_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugins"
)

// memory is a node on a kernel in memory.
type memory struct {
	*node
	kernel *kerneltest.Memory
}

func newMemory() *memory {
	k := kerneltest.NewMemory(kerneltest.Config{})
	return &memory{newNode(k), k}
}

func (m *memory) pod(i int, network string, ports ...cni.PortMapping) *attachment {
	return &attachment{network: network, pod: i, netns: m.kernel.NewPod(), ports: ports}
}

func tcp(host, container int) cni.PortMapping {
	return cni.PortMapping{HostPort: host, ContainerPort: container, Protocol: "tcp"}
}

// withShared returns the kernel's text after one ADD and DEL: what stays by design is there.
func (m *memory) withShared(t *testing.T, network string, ports ...cni.PortMapping) string {
	t.Helper()
	a := m.pod(200, network, ports...)
	m.add(t, a)
	m.del(t, a)
	if err := m.kernel.RemovePod(a.netns); err != nil {
		t.Fatal(err)
	}
	return m.host(t)
}

func (m *memory) host(t *testing.T) string {
	t.Helper()
	text, err := m.kernel.DumpOf(kerneltest.HostPath)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestByType(t *testing.T) {
	for _, d := range plugins.All() {
		found, ok := plugins.ByType(d.Info.Type)
		if !ok || found.Info.Type != d.Info.Type {
			t.Errorf("type %s is not found", d.Info.Type)
		}
	}
	if _, ok := plugins.ByType("none"); ok {
		t.Error("a type that is not there is found")
	}
}

func TestAttachAndDetach(t *testing.T) {
	ports := []cni.PortMapping{tcp(8080, 80), {HostPort: 53, ContainerPort: 53, Protocol: "udp", HostIP: "192.0.2.1"}}
	for _, tc := range []struct {
		name   string
		forget func(m *memory, a *attachment)
	}{
		{name: "all-told", forget: func(*memory, *attachment) {}},
		{name: "no-netns", forget: func(_ *memory, a *attachment) { a.netns = "" }},
		{name: "netns-gone", forget: func(m *memory, a *attachment) { m.kernel.RemovePod(a.netns) }},
		{name: "no-prev-result", forget: func(_ *memory, a *attachment) { a.prev = nil }},
		{name: "no-port-mappings", forget: func(_ *memory, a *attachment) { a.ports = nil }},
		{name: "nothing-told", forget: func(_ *memory, a *attachment) { a.netns, a.prev, a.ports = "", nil, nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMemory()
			before := m.withShared(t, podNetwork, ports...)
			other := m.pod(3, podNetwork, tcp(8081, 80))
			a := m.pod(2, podNetwork, ports...)
			m.add(t, a)
			m.add(t, other)
			if found := m.check(t, a); found != "" {
				t.Errorf("CHECK right after ADD: %s", found)
			}
			tc.forget(m, a)
			for range 2 { // the second time nothing is there
				m.del(t, a)
			}
			if found := m.check(t, other); found != "" {
				t.Errorf("CHECK of another pod after DEL: %s", found)
			}
			m.del(t, other)
			if diff := cmp.Diff(before, m.host(t)); diff != "" {
				t.Errorf("the host after DEL (-before +after):\n%s", diff)
			}
		})
	}
}

func TestB063HostPortConflict(t *testing.T) {
	m := newMemory()
	first, second := m.pod(2, podNetwork, tcp(8080, 80)), m.pod(3, podNetwork, tcp(8081, 80), tcp(8080, 8080))
	m.add(t, first)
	before := m.host(t)
	err := m.tryAdd(t, second)
	if !errors.Is(err, netstate.ErrInUse) || !strings.Contains(err.Error(), "pods/pod2/eth0") {
		t.Errorf("second ADD: %v, want one that says whose the port is", err)
	}
	if diff := cmp.Diff(before, m.host(t)); diff != "" {
		t.Errorf("the host after the refused ADD (-before +after):\n%s", diff)
	}
	if found := m.check(t, first); found != "" {
		t.Errorf("CHECK of the first pod: %s", found)
	}
	// The first pod dies without a DEL: its port is free.
	if err := m.kernel.RemovePod(first.netns); err != nil {
		t.Fatal(err)
	}
	m.add(t, second)
	// Its DEL comes late, and takes nothing of the second pod.
	m.del(t, first)
	if found := m.check(t, second); found != "" {
		t.Errorf("CHECK of the second pod after the late DEL of the first: %s", found)
	}
}

func TestGatewayReplaced(t *testing.T) {
	const network = `{"cniVersion":"1.1.0","name":"NAME","plugins":[{"type":"bridge","isGateway":true,"forceAddress":FORCE,
	  "ipam":{"type":"numbered","subnets":["SUBNET"]}}]}`
	conf := func(name, force, subnet string) string {
		return strings.NewReplacer("NAME", name, "FORCE", force, "SUBNET", subnet).Replace(network)
	}
	m := newMemory()
	m.add(t, m.pod(2, conf("old", "false", "10.1.0.0/24")))
	err := m.tryAdd(t, m.pod(3, conf("new", "false", "10.2.0.0/24")))
	if cni.CodeOf(err) != cni.CodeInvalidConfig || !strings.Contains(err.Error(), "10.1.0.1/24") {
		t.Errorf("without forceAddress: %v", err)
	}
	replaced := m.pod(4, conf("new", "true", "10.2.0.0/24"))
	m.add(t, replaced)
	if found := m.check(t, replaced); found != "" {
		t.Errorf("CHECK after the replacement: %s", found)
	}
	host := m.host(t)
	if strings.Contains(host, "10.1.0.1/24") || !strings.Contains(host, "10.2.0.1/24") {
		t.Errorf("the address is not replaced:\n%s", host)
	}
}

func TestMTUOfTheBridge(t *testing.T) {
	conf := func(mtu string) string {
		return `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"bridge","mtu":` + mtu + `}]}`
	}
	m := newMemory()
	for i, step := range []struct{ mtu, bridge string }{{"1400", "mtu 1400"}, {"9000", "mtu 9000"}, {"1280", "mtu 9000"}, {"0", "mtu 9000"}} {
		a := m.pod(i+2, conf(step.mtu))
		m.add(t, a)
		for line := range strings.Lines(m.host(t)) {
			if strings.Contains(line, "link cni0 ") && !strings.Contains(line, step.bridge) {
				t.Errorf("after a pod of MTU %s: %swant %s", step.mtu, line, step.bridge)
			}
		}
		if found := m.check(t, a); found != "" {
			t.Errorf("CHECK: %s", found)
		}
	}
}

func TestVLANGatewayIsShared(t *testing.T) {
	const network = `{"cniVersion":"1.1.0","name":"v","plugins":[{"type":"bridge","isDefaultGateway":true,"vlan":100,
	  "ipam":{"type":"numbered","subnets":["10.100.0.0/24"]}}]}`
	m := newMemory()
	before := m.withShared(t, network)
	a, b := m.pod(2, network), m.pod(3, network)
	m.add(t, a)
	m.add(t, b)
	for _, p := range []*attachment{a, b} {
		if found := m.check(t, p); found != "" {
			t.Errorf("CHECK of pod%d: %s", p.pod, found)
		}
		if last := p.prev.Interfaces[len(p.prev.Interfaces)-1]; last.Name != "cni0.100" || last.MAC == "" || last.MTU == 0 {
			t.Errorf("pod%d: last interface of the result is %+v", p.pod, last)
		}
	}
	m.del(t, a)
	m.del(t, b)
	if diff := cmp.Diff(before, m.host(t)); diff != "" {
		t.Errorf("the host after DEL (-before +after):\n%s", diff)
	}
}

func TestInterfaceExists(t *testing.T) {
	m := newMemory()
	a := m.pod(2, podNetwork, tcp(8080, 80))
	m.add(t, a)
	before := m.kernel.Dump()
	again := &attachment{network: a.network, pod: a.pod, netns: a.netns, ports: a.ports}
	if err := m.tryAdd(t, again); !errors.Is(err, netstate.ErrExist) || !strings.Contains(err.Error(), "eth0") && !strings.Contains(err.Error(), "veth") {
		t.Errorf("second ADD: %v", err)
	}
	if diff := cmp.Diff(before, m.kernel.Dump()); diff != "" {
		t.Errorf("after the refused ADD (-before +after):\n%s", diff)
	}
}
