//go:build peers && linux

package peers_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/netns"
)

// tunedLink is what `ip -d -j link` says of what tuning may change.
type tunedLink struct {
	Address     string   `json:"address"`
	MTU         int      `json:"mtu"`
	TxQLen      int      `json:"txqlen"`
	Promiscuity int      `json:"promiscuity"`
	AllMulti    int      `json:"allmulti"`
	Flags       []string `json:"flags"`
}

func inNS(t *testing.T, ns *netns.Handle, line string) string {
	t.Helper()
	words := strings.Fields(line)
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = exec.Command(words[0], words[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// TestTuning: both sides' plugins change the pod alike, say the same MAC, and the file that one kept serves the other's DEL.
func TestTuning(t *testing.T) {
	p := build(t)
	const values = "sysctl net.core.somaxconn net.ipv4.conf.eth0.arp_filter net.ipv4.ip_forward"
	for i, tc := range []struct{ name, conf string }{
		{"all", `"mac":"02:00:00:00:00:07","mtu":1400,"promisc":true,"allmulti":true,"txQLen":500,"sysctl":{"net.core.somaxconn":"500","net.ipv4.conf.IFNAME.arp_filter":"1"}`},
		{"off", `"promisc":false,"allmulti":false,"txQLen":0`},
		{"runtime", `"mac":"02:00:00:00:00:07","capabilities":{"mac":true}`},
		{"args", `"mtu":1400,"sysctl":{"net.core.somaxconn":"500"},"args":{"cni":{"mtu":1300,"sysctl":{"net.ipv4.ip_forward":"1"}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := 80 + i
			var links []tunedLink
			var texts []string
			for j, plugins := range []string{p.reference, p.ours} {
				name, data, conf := fmt.Sprintf("tun%d%d", n, j), filepath.Join(t.TempDir(), "data"), t.TempDir()
				if err := os.Mkdir(data, 0o700); err != nil { // the reference makes one that it can't enter without being root
					t.Fatal(err)
				}
				list := fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[
				  {"type":"bridge","bridge":%q,"isGateway":true,"ipam":{"type":"host-local","dataDir":%q,"subnet":"10.77.%d.0/24"}},
				  {"type":"tuning","dataDir":%q,%s}]}`, name, name, t.TempDir(), n, data, tc.conf)
				if err := os.WriteFile(filepath.Join(conf, "10-tun.conflist"), []byte(list), 0o600); err != nil {
					t.Fatal(err)
				}
				s := side{t, p.cnitool, plugins, conf, name}
				pod := namespace(t, name)
				env := `CAP_ARGS={"mac":"02:00:00:00:00:08"}`
				result := s.must("add", name, env)
				s.must("check", name, env)
				var seen []tunedLink
				if err := json.Unmarshal([]byte(inNS(t, pod, "ip -d -j link show dev eth0")), &seen); err != nil {
					t.Fatal(err)
				}
				var r struct{ Interfaces []struct{ Name, Mac string } }
				if err := json.Unmarshal(result, &r); err != nil {
					t.Fatal(err)
				}
				mac := r.Interfaces[len(r.Interfaces)-1].Mac
				if mac != seen[0].Address {
					t.Errorf("%s: the result has the MAC %s, the interface %s", plugins, mac, seen[0].Address)
				}
				if !strings.HasPrefix(mac, "02:00:00:00:00:") {
					seen[0].Address = "" // one of its own choice
				}
				links, texts = append(links, seen[0]), append(texts, inNS(t, pod, values))
				s.must("del", name, env)
				if left, err := os.ReadDir(data); plugins == p.ours && (err != nil || len(left) > 0) {
					t.Errorf("left in the folder: %v, %v", left, err)
				}
				if out, err := exec.Command("ip", "link", "del", name).CombinedOutput(); err != nil {
					t.Fatalf("delete bridge: %v\n%s", err, out)
				}
			}
			if diff := cmp.Diff(links[0], links[1]); diff != "" {
				t.Errorf("the interface (-reference +ours)\n%s", diff)
			}
			if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
				t.Errorf("values (-reference +ours)\n%s", diff)
			}
		})
	}
}

// TestTuningTakenOver: the file that one side's plugin kept serves the other's DEL.
func TestTuningTakenOver(t *testing.T) {
	p := build(t)
	for i, tc := range []struct{ name, add, del string }{{"reference-to-ours", p.reference, p.ours}, {"ours-to-reference", p.ours, p.reference}} {
		t.Run(tc.name, func(t *testing.T) {
			name, data := fmt.Sprintf("take%d", i), filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			pod := namespace(t, name)
			inNS(t, pod, "ip link add eth0 mtu 1450 type veth peer name eth1")
			before := inNS(t, pod, "ip -d link show dev eth0")
			stdin := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"n","type":"tuning","dataDir":%q,"mac":"02:00:00:00:00:07","mtu":1400,"promisc":true,"allmulti":true,"txQLen":500,
			  "prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/%s"}]}}`, data, name)
			for _, call := range []struct{ verb, dir string }{{"ADD", tc.add}, {"DEL", tc.del}} {
				cmd := exec.CommandContext(t.Context(), filepath.Join(call.dir, "tuning"))
				cmd.Env = append(os.Environ(), "CNI_COMMAND="+call.verb, "CNI_CONTAINERID=c1", "CNI_NETNS=/run/netns/"+name, "CNI_IFNAME=eth0", "CNI_PATH="+call.dir)
				cmd.Stdin = strings.NewReader(stdin)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", call.verb, err, out)
				}
				if now := inNS(t, pod, "ip -d link show dev eth0"); (now == before) != (call.verb == "DEL") {
					t.Errorf("after %s\n%s\nbefore\n%s", call.verb, now, before)
				}
			}
			if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
				t.Errorf("left in the folder: %v, %v", left, err)
			}
		})
	}
}
