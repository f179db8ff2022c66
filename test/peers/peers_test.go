//go:build peers && linux

package peers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// programs are the folders and programs of both sides, built once.
type programs struct {
	cleat, cnitool          string // runtimes
	ours, reference, debian string // plugin folders
}

func build(t *testing.T) programs {
	t.Helper()
	sandbox.Require(t)
	peers := os.Getenv("CLEAT_PEERS")
	if peers == "" {
		sandbox.Need(t, "peers", "CLEAT_PEERS is not set: run make interop")
	}
	dir := t.TempDir()
	for _, name := range []string{"cleat", "cleat-cni"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	plugins := filepath.Join(dir, "plugins")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"bandwidth", "bridge", "host-local", "loopback", "portmap", "ptp", "static", "tuning", "firewall"} {
		if err := os.Symlink("../cleat-cni", filepath.Join(plugins, typ)); err != nil {
			t.Fatal(err)
		}
	}
	p := programs{cleat: filepath.Join(dir, "cleat"), cnitool: filepath.Join(peers, "cnitool"), ours: plugins, reference: peers, debian: "/usr/lib/cni"}
	if _, err := os.Stat(filepath.Join(p.debian, "bridge")); err != nil {
		sandbox.Need(t, "debian-plugins", err.Error())
	}
	return p
}

// side is a runtime with a folder of plugins, on one network.
type side struct {
	t       *testing.T
	runtime string
	plugins string
	conf    string
	network string
}

// do runs one command of the runtime on a named namespace.
func (s side) do(verb, ns string, env ...string) ([]byte, error) {
	s.t.Helper()
	args := []string{verb, s.network, "/run/netns/" + ns}
	if filepath.Base(s.runtime) == "cleat" {
		args = append(args, "-o", "json")
	}
	cmd := exec.CommandContext(s.t.Context(), s.runtime, args...)
	cmd.Env = append(os.Environ(), "NETCONFPATH="+s.conf, "CNI_PATH="+s.plugins)
	cmd.Env = append(cmd.Env, env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s %s with %s: %w\n%s%s", filepath.Base(s.runtime), verb, ns, s.plugins, err, out, stderr.String())
	}
	return out, err
}

// within runs f in a namespace; nil is that of this process.
func within(ns *netns.Handle, f func() error) error {
	if ns == nil {
		return f()
	}
	return ns.Do(f)
}

func (s side) must(verb, ns string, env ...string) []byte {
	s.t.Helper()
	out, err := s.do(verb, ns, env...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// network writes a conflist with a bridge of its own and returns the folder of it and the folder of leases.
func network(t *testing.T, name, version string, n int, portmap string) (conf, leases string) {
	t.Helper()
	conf, leases = t.TempDir(), t.TempDir()
	plugins := []any{map[string]any{
		"type": "bridge", "bridge": fmt.Sprintf("peer%d", n), "isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
		"ipam": map[string]any{"type": "host-local", "dataDir": leases,
			"ranges": []any{[]any{map[string]any{"subnet": fmt.Sprintf("10.77.%d.0/24", n)}}}},
	}}
	if portmap != "" {
		plugins = append(plugins, map[string]any{"type": "portmap", "backend": portmap, "capabilities": map[string]bool{"portMappings": true}})
	}
	data, err := json.Marshal(map[string]any{"cniVersion": version, "name": name, "plugins": plugins})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "10-"+name+".conflist"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return conf, leases
}

func namespace(t *testing.T, name string) *netns.Handle {
	t.Helper()
	path := "/run/netns/" + name
	h, err := netns.Mount(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		netns.Unmount(path)
	})
	return h
}

// address reads the pod's address out of a result, as any runtime would.
func address(t *testing.T, result []byte) string {
	t.Helper()
	var r struct {
		IPs []struct{ Address string } `json:"ips"`
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.IPs) != 1 {
		t.Fatalf("result %s: %v", result, err)
	}
	ip, _, err := net.ParseCIDR(r.IPs[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	return ip.String()
}

func ping(t *testing.T, from *netns.Handle, to string) {
	t.Helper()
	err := from.Do(func() error {
		out, err := exec.CommandContext(t.Context(), "ping", "-c1", "-W2", to).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ping %s: %w\n%s", to, err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// serve answers HTTP in a pod until the test ends.
func serve(t *testing.T, pod *netns.Handle, port int, says string) {
	t.Helper()
	err := pod.Do(func() error {
		l, err := net.Listen("tcp4", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, says) })}
		go srv.Serve(l)
		t.Cleanup(func() { srv.Close() })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, url string) (string, error) {
	t.Helper()
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// leased returns the addresses that a lease folder holds.
func leased(t *testing.T, dir, network string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, network))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if net.ParseIP(e.Name()) != nil {
			names = append(names, e.Name())
		}
	}
	return names
}

// newVeths returns the host's veth interfaces that are not in before. Pairs of namespaces that have just ended
// go by themselves, at some time.
func newVeths(t *testing.T, before string) string {
	t.Helper()
	var left []string
	for line := range strings.Lines(hostVeths(t)) {
		index, _, _ := strings.Cut(line, ":")
		if !strings.HasPrefix(before, index+":") && !strings.Contains(before, "\n"+index+":") {
			left = append(left, line)
		}
	}
	return strings.Join(left, "")
}

func hostVeths(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-o", "link", "show", "type", "veth").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestRuntimesAndPlugins: every runtime with every folder of plugins: two pods talk, a port is
// published, nothing is left.
func TestRuntimesAndPlugins(t *testing.T) {
	p := build(t)
	n := 0
	for _, rt := range []struct{ name, path string }{{"cnitool", p.cnitool}, {"cleat", p.cleat}} {
		for _, pl := range []struct{ name, path, version, portmap string }{
			{"ours", p.ours, "1.1.0", "nftables"},
			{"ours-1.0.0", p.ours, "1.0.0", "nftables"},
			{"ours-0.4.0", p.ours, "0.4.0", ""},
			{"ours-iptables", p.ours, "1.1.0", "iptables"},
			{"reference-nftables", p.reference, "1.1.0", "nftables"},
			{"reference-iptables", p.reference, "1.0.0", "iptables"},
			{"debian", p.debian, "1.0.0", "iptables"},
		} {
			n++
			t.Run(rt.name+"-"+pl.name, func(t *testing.T) {
				conf, leases := network(t, fmt.Sprintf("net%d", n), pl.version, n, pl.portmap)
				lifecycle(t, side{t, rt.path, pl.path, conf, fmt.Sprintf("net%d", n)}, leases, n, pl.portmap != "")
			})
		}
	}
}

func lifecycle(t *testing.T, s side, leases string, n int, published bool) {
	before := hostVeths(t)
	a, b := namespace(t, fmt.Sprintf("a%d", n)), namespace(t, fmt.Sprintf("b%d", n))
	port := 18000 + n
	caps := fmt.Sprintf(`CAP_ARGS={"portMappings":[{"hostPort":%d,"containerPort":80,"protocol":"tcp"}]}`, port)
	ipA := address(t, s.must("add", fmt.Sprintf("a%d", n), caps))
	ipB := address(t, s.must("add", fmt.Sprintf("b%d", n)))
	if s.plugins != "/usr/lib/cni" { // Debian's portmap looks for IPv6 rules that it never made
		s.must("check", fmt.Sprintf("a%d", n), caps)
		s.must("check", fmt.Sprintf("b%d", n))
	}
	ping(t, a, ipB)
	ping(t, b, ipA)
	if published {
		serve(t, a, 80, "hello from a")
		for _, url := range []string{fmt.Sprintf("http://10.77.%d.1:%d", n, port), fmt.Sprintf("http://127.0.0.1:%d", port)} {
			if body, err := fetch(t, url); err != nil || body != "hello from a" {
				t.Errorf("fetch %s: %q, %v", url, body, err)
			}
		}
	}
	for range 2 { // DEL may be repeated
		s.must("del", fmt.Sprintf("a%d", n), caps)
		s.must("del", fmt.Sprintf("b%d", n))
	}
	if left := leased(t, leases, s.network); len(left) > 0 {
		t.Errorf("leases left: %v", left)
	}
	if after := newVeths(t, before); after != "" {
		t.Errorf("links left:\n%s", after)
	}
	if published {
		if body, err := fetch(t, fmt.Sprintf("http://10.77.%d.1:%d", n, port)); err == nil {
			t.Errorf("the port still answers after DEL: %q", body)
		}
	}
}

// TestTakeOver: what one side attached the other detaches, runtime and plugins alike.
func TestTakeOver(t *testing.T) {
	p := build(t)
	for i, tc := range []struct{ name, addRuntime, addPlugins, delRuntime, delPlugins string }{
		{"cnitool-to-cleat", p.cnitool, p.ours, p.cleat, p.ours},
		{"cleat-to-cnitool", p.cleat, p.ours, p.cnitool, p.ours},
		{"reference-to-ours", p.cnitool, p.reference, p.cleat, p.ours},
		{"ours-to-reference", p.cleat, p.ours, p.cnitool, p.reference},
		{"debian-to-ours", p.cleat, p.debian, p.cleat, p.ours},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := 100 + i
			conf, leases := network(t, fmt.Sprintf("net%d", n), "1.0.0", n, "")
			before := hostVeths(t)
			namespace(t, fmt.Sprintf("a%d", n))
			add := side{t, tc.addRuntime, tc.addPlugins, conf, fmt.Sprintf("net%d", n)}
			del := side{t, tc.delRuntime, tc.delPlugins, conf, fmt.Sprintf("net%d", n)}
			ip := address(t, add.must("add", fmt.Sprintf("a%d", n)))
			if got := leased(t, leases, add.network); len(got) != 1 || got[0] != ip {
				t.Errorf("leases %v, want %s", got, ip)
			}
			del.must("del", fmt.Sprintf("a%d", n))
			if left := leased(t, leases, add.network); len(left) > 0 {
				t.Errorf("leases left: %v", left)
			}
			if after := newVeths(t, before); after != "" {
				t.Errorf("links left:\n%s", after)
			}
			if left, _ := filepath.Glob("/var/lib/cni/results/" + add.network + "-*"); len(left) > 0 {
				t.Errorf("records left: %v", left)
			}
		})
	}
}
