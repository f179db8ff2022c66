//go:build peers && linux

package peers_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/netns"
)

// walled writes a network with a firewall as the n-th, whose bridge is wall<n>.
func walled(t *testing.T, name string, n int, options map[string]any) (conf string) {
	t.Helper()
	conf = t.TempDir()
	firewall := map[string]any{"type": "firewall"}
	for key, value := range options {
		firewall[key] = value
	}
	data, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "name": name, "plugins": []any{
		map[string]any{"type": "bridge", "bridge": fmt.Sprintf("wall%d", n), "isGateway": true, "ipam": map[string]any{
			"type": "host-local", "dataDir": t.TempDir(), "routes": []any{map[string]string{"dst": "0.0.0.0/0"}},
			"ranges": []any{[]any{map[string]any{"subnet": fmt.Sprintf("10.79.%d.0/24", n)}}}}},
		firewall}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "10-"+name+".conflist"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return conf
}

// reaches tells whether a connection from a namespace to an address comes about.
func reaches(ns *netns.Handle, addr string) bool {
	err := ns.Do(func() error {
		conn, err := net.DialTimeout("tcp4", addr, 500*time.Millisecond)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return err == nil
}

// dropForwarded has iptables drop what a host forwards, until the test ends.
func dropForwarded(t *testing.T, host *netns.Handle) {
	t.Helper()
	policy := func(name string) error {
		return within(host, func() error { return exec.Command("iptables", "-P", "FORWARD", name).Run() })
	}
	if err := policy("DROP"); err != nil {
		t.Fatalf("iptables: %v", err)
	}
	t.Cleanup(func() {
		if err := policy("ACCEPT"); err != nil {
			t.Errorf("iptables: %v", err)
		}
	})
}

// TestFirewallIsEquivalent: on a host that drops what it forwards, who reaches whom is the same with our firewall, by either backend, and
// with the reference's, for each policy; and a second DEL leaves what the first did.
func TestFirewallIsEquivalent(t *testing.T) {
	p := build(t)
	world := world(t)
	dropForwarded(t, nil)
	if err := world.Do(func() error { return exec.Command("ip", "route", "add", "10.79.0.0/16", "via", "192.0.2.1").Run() }); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, policy := range []string{"open", "same-bridge", "isolated"} {
		var want map[string]bool
		for _, side := range []struct {
			name, plugins, backend string
		}{{"reference", p.reference, "iptables"}, {"ours-nftables", p.ours, "nftables"}, {"ours-iptables", p.ours, "iptables"}} {
			n += 2
			t.Run(policy+"-"+side.name, func(t *testing.T) {
				got := firewallLife(t, p.cnitool, side.plugins, world, n, map[string]any{"backend": side.backend, "ingressPolicy": policy})
				if want == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("who reaches whom (-reference +ours)\n%s", diff)
				}
			})
		}
	}
}

// firewallLife attaches two pods to one network and a third to another, and tells who reaches whom.
func firewallLife(t *testing.T, runtime, plugins string, world *netns.Handle, n int, options map[string]any) map[string]bool {
	t.Helper()
	var first, before string
	got := map[string]bool{}
	for round := range 2 {
		pods, addrs := map[string]*netns.Handle{}, map[string]string{}
		var del []func()
		for i, pod := range []string{"one", "neighbour", "far"} {
			network, ns := fmt.Sprintf("wall%d", n+i/2), fmt.Sprintf("wall%d-%d-%s", n, round, pod)
			pods[pod] = namespace(t, ns)
			conf := walled(t, network, n+i/2, options)
			if i == 1 {
				conf = first
			}
			first = conf
			s := side{t, runtime, plugins, conf, network}
			addrs[pod] = address(t, s.must("add", ns))
			serve(t, pods[pod], 80, pod)
			s.must("check", ns)
			del = append(del, func() {
				for range 2 {
					s.must("del", ns)
				}
			})
		}
		for _, from := range []string{"one", "neighbour", "far"} {
			for to, addr := range addrs {
				if from != to {
					got[from+" to "+to] = reaches(pods[from], net.JoinHostPort(addr, "80"))
				}
			}
			got[from+" to the world"] = reaches(pods[from], "192.0.2.9:80")
			got["the world to "+from] = reaches(world, net.JoinHostPort(addrs[from], "80"))
		}
		for _, d := range del {
			d()
		}
		if round == 0 {
			before = rules(t)
		} else if diff := cmp.Diff(before, rules(t)); diff != "" {
			t.Errorf("rules after one ADD and DEL, and after another (-one +two)\n%s", diff)
		}
	}
	return got
}
