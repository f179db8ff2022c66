package plugins_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// limitedNetwork limits pods: 32 Mbit/s to them and 24 Mbit/s from them, with a burst of 1 MB.
const limitedNetwork = `{"cniVersion":"1.1.0","name":"pods","plugins":[
  {"type":"bridge","bridge":"cni0","isDefaultGateway":true,"ipam":{"type":"numbered","subnets":["10.88.0.0/16"]}},
  {"type":"bandwidth","ingressRate":32000000,"ingressBurst":8000000,"egressRate":24000000,"egressBurst":8000000}]}`

func TestBandwidthIsKept(t *testing.T) {
	m := newMachine(t)
	p := m.attach(m.newPod(2, limitedNetwork))
	for _, tc := range []struct {
		name     string
		transfer traffic.Transfer
		want     float64
	}{
		{"to-the-pod", traffic.Transfer{From: m.Host, At: "10.88.0.1:5001", To: p.ns, Skip: 1_500_000}, 32e6},
		{"from-the-pod", traffic.Transfer{From: p.ns, At: p.address(false).String() + ":5001", To: m.Host, Skip: 1_500_000}, 24e6},
	} {
		if got := m.Rate(tc.transfer); got < 0.95*tc.want || got > 1.05*tc.want {
			t.Errorf("%s: %.2f Mbit/s, want %.0f within 5 %%", tc.name, got/1e6, tc.want/1e6)
		} else {
			t.Logf("%s: %.2f of %.0f Mbit/s", tc.name, got/1e6, tc.want/1e6)
		}
	}
}

// TestBandwidthOfTwoInterfaces: two interfaces of one pod are limited each by itself, and freed each by itself.
func TestBandwidthOfTwoInterfaces(t *testing.T) {
	m := newMachine(t)
	before := func() string { return m.Run(m.Host, "tc qdisc show") + m.Run(m.Host, "ip -o link show type ifb") }
	first := m.attach(m.newPod(2, limitedNetwork))
	alone := before()
	second := &attachment{network: strings.Replace(limitedNetwork, "24000000", "4000000", 1), pod: 2, container: 2, ifName: "net1", netns: first.netns}
	m.add(t, second)
	for _, a := range []*attachment{first.attachment, second} {
		if found := m.check(t, a); found != "" {
			t.Errorf("CHECK of %s: %s", a.ifName, found)
		}
		if last := a.prev.Interfaces[len(a.prev.Interfaces)-1]; !strings.HasPrefix(last.Name, "bwp") || last.Sandbox != "" {
			t.Errorf("the result's last interface is %v, want the ifb", last)
		}
	}
	m.del(t, second)
	if after := before(); after != alone {
		t.Errorf("after DEL of the second interface\n%s\nbefore its ADD\n%s", after, alone)
	}
	if found := m.check(t, first.attachment); found != "" {
		t.Errorf("CHECK of the first after DEL of the second: %s", found)
	}
	m.del(t, first.attachment)
	if left := before(); strings.Contains(left, "bwp") || strings.Contains(left, "tbf") {
		t.Errorf("after DEL of both:\n%s", left)
	}
}

// TestBandwidthRepaired: what CHECK misses repair puts back, also where a filter is left that leads nowhere.
func TestBandwidthRepaired(t *testing.T) {
	m := newMachine(t)
	p := m.attach(m.newPod(2, limitedNetwork))
	host, ifb := p.netOwner().HostName("veth"), p.netOwner().HostName("bwp")
	for name, damage := range map[string]string{
		"no-ifb":     "ip link del " + ifb,
		"no-limit":   "tc qdisc del dev " + host + " root",
		"no-ingress": "tc qdisc del dev " + host + " ingress",
		"other-rate": "tc qdisc change dev " + ifb + " root handle 1: tbf rate 1mbit burst 1000000 limit 1025000",
	} {
		t.Run(name, func(t *testing.T) {
			m.Run(m.Host, damage)
			if m.check(t, p.attachment) == "" {
				t.Fatal("CHECK finds nothing")
			}
			if diffs, err := m.engine.Repair(t.Context(), p.steps(t, cni.VerbCheck)); err != nil || len(diffs) == 0 {
				t.Fatalf("repair: %v, %v", diffs, err)
			}
			if found := m.check(t, p.attachment); found != "" {
				t.Errorf("CHECK after repair: %s", found)
			}
			m.Run(p.ns, "ping -c1 -W2 10.88.0.1")
		})
	}
}

// TestB067BandwidthOfForeignVeths: the host's end is found in the kernel when another's plugin made it and says
// little, and an interface without one is refused before anything is made.
func TestB067BandwidthOfForeignVeths(t *testing.T) {
	m := newMachine(t)
	only := `{"cniVersion":"1.1.0","name":"pods","plugins":[{"type":"bandwidth","ingressRate":32000000,"ingressBurst":8000000,"egressRate":24000000,"egressBurst":8000000}]}`
	p := m.newPod(2, only)
	m.Run(m.Host, "ip link add cali1 mtu 1400 type veth peer name eth0 netns "+traffic.Inherited(p.ns))
	m.Run(m.Host, "ip link add link up0 name mac0 type macvlan")
	m.Run(m.Host, "ip link set mac0 netns "+traffic.Inherited(p.ns))
	for name, prev := range map[string]*cni.Result{
		"no-interfaces":     {},
		"sandbox-is-a-name": {Interfaces: []cni.Interface{{Name: "cali1"}, {Name: "eth0", Sandbox: "pod"}}},
	} {
		p.prev = prev
		m.add(t, p.attachment)
		if got := m.Run(m.Host, "tc qdisc show dev cali1"); !strings.Contains(got, "tbf") || !strings.Contains(got, "ingress") {
			t.Errorf("%s: qdiscs of the host's end:\n%s", name, got)
		}
		if found := m.check(t, p.attachment); found != "" {
			t.Errorf("%s: CHECK: %s", name, found)
		}
		p.prev = nil
		m.del(t, p.attachment)
		if left := m.Run(m.Host, "ip -br link"); strings.Contains(left, "bwp") {
			t.Errorf("%s: after DEL:\n%s", name, left)
		}
		m.Run(m.Host, "tc qdisc del dev cali1 root")
		m.Run(m.Host, "tc qdisc del dev cali1 ingress")
	}
	// The ifb goes too where the veth has gone before, and a DEL that has nothing to do is fine.
	p.prev = &cni.Result{}
	m.add(t, p.attachment)
	m.Run(m.Host, "ip link del cali1")
	for range 2 {
		m.del(t, p.attachment)
	}
	if left := m.Run(m.Host, "ip -br link"); strings.Contains(left, "bwp") {
		t.Errorf("after DEL without the veth:\n%s", left)
	}
	macvlan := &attachment{network: only, pod: 2, ifName: "mac0", netns: p.netns, prev: &cni.Result{Interfaces: []cni.Interface{{Name: "mac0", Sandbox: p.netns}}}}
	before := m.Run(m.Host, "ip -br link") + m.Run(m.Host, "tc qdisc show")
	if err := m.tryAdd(t, macvlan); cni.CodeOf(err) != cni.CodeInvalidConfig || !strings.Contains(err.Error(), "no end on the host") {
		t.Errorf("ADD on a macvlan: %v", err)
	}
	if after := m.Run(m.Host, "ip -br link") + m.Run(m.Host, "tc qdisc show"); after != before {
		t.Errorf("after all\n%s\nbefore\n%s", after, before)
	}
}

// TestBandwidthCollected: GC frees what a crash left.
func TestBandwidthCollected(t *testing.T) {
	m := newMachine(t)
	kept, lost := m.attach(m.newPod(2, limitedNetwork)), m.attach(m.newPod(3, limitedNetwork))
	m.Run(m.Host, "ip link del "+lost.netOwner().HostName("veth"))
	freed, err := m.kernel.Collect(t.Context(), "pods", []netstate.Owner{kept.netOwner()}, false)
	if err != nil || len(freed) != 1 || !strings.Contains(freed[0].Object, lost.netOwner().HostName("bwp")) {
		t.Errorf("collected %v, %v; want the ifb", freed, err)
	}
	if found := m.check(t, kept.attachment); found != "" {
		t.Errorf("CHECK of the other pod: %s", found)
	}
}

// netOwner is the owner of what the network made for the attachment.
func (a *attachment) netOwner() netstate.Owner {
	return netstate.Owner{Network: "pods", ContainerID: fmt.Sprintf("pod%d", a.pod), IfName: "eth0"}
}

// TestBandwidthOfRenamedEnd: where the host's end has another name by now, the limits on it are found by the pod's end, and go with it.
func TestBandwidthOfRenamedEnd(t *testing.T) {
	for _, tc := range []struct {
		name   string
		forget func(p *pod)
	}{
		{"told", func(*pod) {}},
		{"no-prev-result", func(p *pod) { p.prev = nil }},
		{"no-netns", func(p *pod) { p.netns = "" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			p := m.attach(m.newPod(2, limitedNetwork))
			host := p.netOwner().HostName("veth")
			for _, step := range []string{host + " down", host + " name web0", "web0 up"} {
				m.Run(m.Host, "ip link set "+step)
			}
			limits := p.steps(t, cni.VerbCheck)[1]
			if err := m.engine.Plugin(limits.Def).Check(t.Context(), limits.Req); err != nil {
				t.Errorf("CHECK of bandwidth: %v", err)
			}
			m.Run(m.Host, "tc qdisc del dev web0 root")
			if err := m.engine.Plugin(limits.Def).Check(t.Context(), limits.Req); err == nil || !strings.Contains(err.Error(), "qdisc dev web0") {
				t.Errorf("CHECK of bandwidth without its qdisc: %v", err)
			}
			if diffs, err := m.engine.Repair(t.Context(), []planned.Step{limits}); err != nil || len(diffs) != 1 {
				t.Errorf("repair: %v, %v", diffs, err)
			}
			tc.forget(p)
			m.del(t, p.attachment)
			// Without the namespace nothing leads to the end but its mark.
			if _, err := m.kernel.Collect(t.Context(), "pods", nil, false); err != nil {
				t.Fatal(err)
			}
			if left := m.Run(m.Host, "tc qdisc show") + m.Run(m.Host, "ip -br link"); strings.Contains(left, "tbf") || strings.Contains(left, "web0") || strings.Contains(left, "bwp") {
				t.Errorf("after DEL:\n%s", left)
			}
		})
	}
}

// TestBandwidthEdges: the kernel takes the smallest and the largest limits, and a pod talks through them.
func TestBandwidthEdges(t *testing.T) {
	m := newMachine(t)
	for i, tc := range []struct {
		name        string
		rate, burst uint64
		want        string
	}{
		{"smallest", 8, 12112, "rate 8bit"},
		{"rounded-down", 15, 12119, "rate 8bit"},
		{"largest-burst", 8, 8*math.MaxUint32 - 1, "rate 8bit"},
		{"2^63", 1 << 63, 800000, "rate 9223372Tbit"},
		{"largest", math.MaxUint64, 8*math.MaxUint32 - 1, "rate 18446744Tbit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limit := fmt.Sprintf(`"ingressRate":%d,"ingressBurst":%d,"egressRate":%[1]d,"egressBurst":%[2]d`, tc.rate, tc.burst)
			head, _, _ := strings.Cut(limitedNetwork, `"ingressRate"`)
			p := m.attach(m.newPod(i+2, head+limit+"}]}"))
			if found := m.check(t, p.attachment); found != "" {
				t.Errorf("CHECK: %s", found)
			}
			for _, dev := range []string{"veth", "bwp"} {
				if got := m.Run(m.Host, "tc qdisc show dev "+p.netOwner().HostName(dev)); !strings.Contains(got, tc.want+" ") {
					t.Errorf("%s: %s, want %s", dev, got, tc.want)
				}
			}
			m.Run(p.ns, "ping -c1 -W2 10.88.0.1")
			m.del(t, p.attachment)
		})
	}
}
