package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
)

// The limits of the pod that has some, in bits a second; the burst makes good what a busy machine misses.
const (
	toPod, fromPod = 32e6, 24e6
	limits         = `{"bandwidth":{"ingressRate":32000000,"ingressBurst":8000000,"egressRate":24000000,"egressBurst":8000000}}`
	// skipped is what of a transfer passes at once, and as much again.
	skipped = 2_000_000
)

// TestChain: bridge, portmap, firewall, bandwidth and tuning together, on a host that drops what it forwards. Pods talk as they may and at
// the rate that they may, in both families; ports are reached from everywhere; and what DEL leaves is what the first DEL left.
func TestChain(t *testing.T) {
	onEachChain(t, func(t *testing.T, n *chainNode, _ string) {
		docker := n.Saved("filter")
		pods := []*pod{n.newPod("same-bridge", "limited"), n.newPod("same-bridge", "sibling"), n.newPod("open", "far"), n.newPod("isolated", "alone"), n.newPod("isolated", "alone2")}
		add := func() {
			n.add(pods[0], "--publish 8080:80 --mac 02:00:00:00:00:07")
			n.add(pods[1], "")
			n.add(pods[2], "")
			n.add(pods[3], "--publish 8081:80")
			n.add(pods[4], "")
		}
		del := func() {
			for _, p := range pods {
				n.del(p)
			}
		}
		pods[0].caps = limits
		add()
		del()
		before := n.state(pods...)
		add()
		n.Serve(n.Outside, "tcp", ":8080", "outside")
		for _, p := range pods {
			if found := n.check(p); found != "" {
				t.Errorf("CHECK of %s:\n%s", p.id, found)
			}
		}
		for name, family := range traffic.Families() {
			n.reached(t, pods, name, family)
		}
		n.Expect(t, traffic.Call{Name: "localhost", From: n.Host, Network: "tcp", To: "127.0.0.1:8080", Want: "limited sees 10.81.0.1"})
		for name, family := range traffic.Families() {
			n.limited(t, pods[0], pods[1], name, family)
		}
		del()
		if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(n.state(pods...), "\n")); diff != "" {
			t.Errorf("DEL left something (-after the first +after the second)\n%s", diff)
		}
		ours := func(line string) bool {
			return strings.Contains(line, "cleat ") || strings.Contains(line, ":CLEAT-") || strings.Contains(line, ":CNI-ADMIN ") || strings.Contains(line, "0x1000000/0x1000000")
		}
		if diff := cmp.Diff(docker, strings.Join(slices.DeleteFunc(strings.SplitAfter(n.Saved("filter"), "\n"), ours), "")); diff != "" {
			t.Errorf("Docker's rules (-before +after)\n%s", diff)
		}
	})
}

// reached checks who reaches whom, in a family.
func (n *chainNode) reached(t *testing.T, pods []*pod, name string, family int) {
	t.Helper()
	limited, sibling, far, alone, alone2 := pods[0], pods[1], pods[2], pods[3], pods[4]
	gateway := func(network int) string {
		return []string{fmt.Sprintf("10.8%d.0.1", network), fmt.Sprintf("fd00:8%d::1", network)}[family]
	}
	host, outside := traffic.HostAddr(family), traffic.OutsideAddr(family)
	to := func(p *pod) string { return traffic.At(p.addr[family], 80) }
	for _, c := range []struct {
		name     string
		from     *pod // nil is the host or, where a port is called, the machine outside
		to, want string
	}{
		{"pod to pod", sibling, to(limited), "limited sees " + sibling.addr[family]},
		{"pod to pod back", limited, to(sibling), "sibling sees " + limited.addr[family]},
		{"host to pod", nil, to(limited), "limited sees " + gateway(1)},
		{"the other pod to the port", sibling, traffic.At(host, 8080), "limited sees " + gateway(1)},
		{"the pod itself", limited, traffic.At(host, 8080), "limited sees " + gateway(1)},
		{"the host to the port", nil, traffic.At(host, 8080), "limited sees " + host},
		{"to the world", limited, traffic.At(outside, 8080), "outside sees " + host},
		{"isolated, to the world", alone, traffic.At(outside, 8080), "outside sees " + host},
		{"same-bridge: another bridge", far, to(limited), "no connection"},
		{"same-bridge: another bridge, by the port", far, traffic.At(host, 8080), "no connection"},
		{"to an open pod of another bridge", limited, to(far), "far sees " + gateway(0)},
		{"isolated: its sibling", alone2, to(alone), "no connection"},
		{"isolated: its sibling, by the port", alone2, traffic.At(host, 8081), "no connection"},
		{"isolated: another bridge", limited, to(alone), "no connection"},
		{"isolated: itself, by the port", alone, traffic.At(host, 8081), "alone sees " + gateway(2)},
	} {
		from := n.Host
		if c.from != nil {
			from = c.from.ns
		}
		n.Expect(t, traffic.Call{Name: name + ", " + c.name, From: from, Network: "tcp", To: c.to, Want: c.want})
	}
	n.Expect(t,
		traffic.Call{Name: name + ", the world to the port", From: n.Outside, Network: "tcp", To: traffic.At(host, 8080), Want: "limited sees " + outside},
		traffic.Call{Name: name + ", the world to an isolated pod's", From: n.Outside, Network: "tcp", To: traffic.At(host, 8081), Want: "alone sees " + outside})
}

// limited checks the rate of transfers between the pods, of which the first has limits.
func (n *chainNode) limited(t *testing.T, a, b *pod, name string, family int) {
	t.Helper()
	for _, tc := range []struct {
		name     string
		from, to *pod
		want     float64
	}{{"to the pod", b, a, toPod}, {"from the pod", a, b, fromPod}} {
		tr := traffic.Transfer{From: tc.from.ns, At: traffic.At(tc.from.addr[family], 5001), To: tc.to.ns, Skip: skipped, MTU: chainMTU}
		got := n.Rate(tr)
		t.Logf("%s, %s: %.2f of %.0f Mbit/s", name, tc.name, got/1e6, tc.want/1e6)
		if got < 0.95*tc.want || got > 1.05*tc.want {
			t.Errorf("%s, %s: %.2f Mbit/s, want %.0f within 5 %%", name, tc.name, got/1e6, tc.want/1e6)
		}
	}
}
