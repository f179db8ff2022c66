//go:build peers && linux

package peers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/netns"
)

// world is a machine outside, which the host reaches by the interface up0 and that answers everyone with the address that they
// seem to come from.
func world(t *testing.T) *netns.Handle {
	t.Helper()
	return worldOf(t, "world", nil)
}

// worldOf is the world of a host, in a namespace of that name.
func worldOf(t *testing.T, name string, host *netns.Handle) *netns.Handle {
	t.Helper()
	out := namespace(t, name)
	run := func(ns *netns.Handle, line string) {
		t.Helper()
		words := strings.Fields(line)
		command := func() error {
			text, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w: %s", line, err, text)
			}
			return nil
		}
		if err := within(ns, command); err != nil {
			t.Fatal(err)
		}
	}
	run(host, "ip link add up0 type veth peer name up0 netns "+name)
	t.Cleanup(func() { within(host, func() error { return exec.Command("ip", "link", "del", "up0").Run() }) }) // it goes with the namespace too
	run(host, "ip addr add 192.0.2.1/24 dev up0")
	run(host, "ip link set up0 up")
	run(out, "ip addr add 192.0.2.9/24 dev up0")
	run(out, "ip link set up0 up")
	err := out.Do(func() error {
		l, err := net.Listen("tcp4", ":80")
		if err != nil {
			return err
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			fmt.Fprint(w, host)
		})}
		go srv.Serve(l)
		t.Cleanup(func() { srv.Close() })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fetchFrom fetches an address from within a namespace.
func fetchFrom(t *testing.T, ns *netns.Handle, url string) string {
	t.Helper()
	dial := func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		err = ns.Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return conn, err
	}
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	resp, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// rules lists all that filters and translates packets on the host, without counters.
func rules(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, command := range [][]string{{"nft", "-s", "list", "ruleset"}, {"iptables-save"}, {"ip6tables-save"}, {"iptables-legacy-save"}, {"ip6tables-legacy-save"}} {
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), " [")
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, command[0]+" "+withoutCounters(line))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// withoutCounters takes `counter packets 3 bytes 180` out of a rule of nft.
func withoutCounters(line string) string {
	before, after, ok := strings.Cut(line, "counter packets ")
	if !ok {
		return line
	}
	words := strings.Fields(after)
	return before + "counter " + strings.Join(words[min(3, len(words)):], " ")
}

// plan is a network: its main plugin, where addresses come from and the backend of both masquerading and ports.
type plan struct {
	main, ipam, backend string
}

func (p plan) String() string { return p.main + "-" + p.ipam + "-" + p.backend }

// write writes the network as the n-th and returns the folder of it, and the folder of leases.
func (p plan) write(t *testing.T, name, version string, n int) (conf, leases string) {
	t.Helper()
	conf, leases = t.TempDir(), t.TempDir()
	routes := []any{map[string]string{"dst": "0.0.0.0/0"}}
	ipam := map[string]any{"type": "host-local", "dataDir": leases, "routes": routes,
		"ranges": []any{[]any{map[string]any{"subnet": fmt.Sprintf("10.78.%d.0/24", n)}}}}
	if p.ipam == "static" {
		ipam = map[string]any{"type": "static", "routes": routes,
			"addresses": []any{map[string]any{"address": fmt.Sprintf("10.78.%d.5/24", n), "gateway": fmt.Sprintf("10.78.%d.1", n)}}}
	}
	main := map[string]any{"type": p.main, "ipMasq": true, "ipMasqBackend": p.backend, "ipam": ipam}
	if p.main == "bridge" {
		main["bridge"], main["isGateway"], main["hairpinMode"] = fmt.Sprintf("back%d", n), true, true
	}
	data, err := json.Marshal(map[string]any{"cniVersion": version, "name": name, "plugins": []any{main,
		map[string]any{"type": "portmap", "backend": p.backend, "capabilities": map[string]bool{"portMappings": true}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "10-"+name+".conflist"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return conf, leases
}

// TestBackends: every runtime with both sides' plugins, bridged and routed, with addresses of either kind and by both backends: the
// pod reaches the host and the world under the host's address, its port is reached from the world, from
// 127.0.0.1 and from itself, and a second DEL leaves what the first did.
func TestBackends(t *testing.T) {
	p := build(t)
	out := world(t)
	n := 0
	for _, rt := range []struct{ name, path string }{{"cnitool", p.cnitool}, {"cleat", p.cleat}} {
		for _, pl := range []struct{ name, path string }{{"ours", p.ours}, {"reference", p.reference}} {
			for _, net := range []plan{
				{"bridge", "host-local", "iptables"},
				{"bridge", "static", "nftables"},
				{"ptp", "host-local", "iptables"},
				{"ptp", "static", "iptables"},
				{"ptp", "static", "nftables"},
			} {
				n++
				t.Run(rt.name+"-"+pl.name+"-"+net.String(), func(t *testing.T) {
					name := fmt.Sprintf("back%d", n)
					conf, leases := net.write(t, name, "1.0.0", n)
					backendLife(t, side{t, rt.path, pl.path, conf, name}, out, leases, n)
				})
			}
		}
	}
}

func backendLife(t *testing.T, s side, out *netns.Handle, leases string, n int) {
	name, port := fmt.Sprintf("k%d", n), 19000+n
	caps := fmt.Sprintf(`CAP_ARGS={"portMappings":[{"hostPort":%d,"containerPort":80,"protocol":"tcp"}]}`, port)
	veths := hostVeths(t)
	var before string
	for round := range 2 {
		pod := namespace(t, fmt.Sprintf("%s-%d", name, round))
		ns := fmt.Sprintf("%s-%d", name, round)
		ip := address(t, s.must("add", ns, caps))
		s.must("check", ns, caps)
		serve(t, pod, 80, "hello from the pod")
		gateway := fmt.Sprintf("10.78.%d.1", n)
		ping(t, pod, gateway)
		if got := fetchFrom(t, pod, "http://192.0.2.9/"); got != "192.0.2.1" {
			t.Errorf("the world sees the pod as %q, want the host's 192.0.2.1", got)
		}
		for _, url := range []string{"http://" + ip, fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://192.0.2.1:%d", port)} {
			if body, err := fetch(t, url); err != nil || body != "hello from the pod" {
				t.Errorf("fetch %s: %q, %v", url, body, err)
			}
		}
		for from, ns := range map[string]*netns.Handle{"the world": out, "the pod itself": pod} {
			if got := fetchFrom(t, ns, fmt.Sprintf("http://192.0.2.1:%d", port)); got != "hello from the pod" {
				t.Errorf("%s fetches the port: %q", from, got)
			}
		}
		for range 2 { // DEL may be repeated
			s.must("del", ns, caps)
		}
		if round == 0 {
			before = rules(t)
			continue
		}
		if diff := cmp.Diff(before, rules(t)); diff != "" {
			t.Errorf("rules after one ADD and DEL, and after another (-one +two)\n%s", diff)
		}
	}
	if left := leased(t, leases, s.network); len(left) > 0 {
		t.Errorf("leases left: %v", left)
	}
	if after := newVeths(t, veths); after != "" {
		t.Errorf("links left:\n%s", after)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp4", fmt.Sprintf("192.0.2.1:%d", port))
	if err == nil {
		conn.Close()
		t.Error("the port still answers after DEL")
	}
}
