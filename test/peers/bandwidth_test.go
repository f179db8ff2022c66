//go:build peers && linux

package peers_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBandwidth: both sides' plugins make the same qdiscs, filters, links and result, and leave nothing.
func TestBandwidth(t *testing.T) {
	p := build(t)
	for i, tc := range []struct {
		name, limits string
		runtime      string // CAP_ARGS
	}{
		{"both", `"ingressRate":16000000,"ingressBurst":1600000,"egressRate":8000000,"egressBurst":1600000`, ""},
		{"ingress", `"ingressRate":16000000,"ingressBurst":1600000`, ""},
		{"egress", `"egressRate":8000000,"egressBurst":1600000`, ""},
		{"odd", `"ingressRate":16000001,"ingressBurst":1600007`, ""},
		{"fast", `"ingressRate":100000000000,"ingressBurst":2147483647`, ""},
		{"runtime", `"capabilities":{"bandwidth":true}`, `{"bandwidth":{"ingressRate":16000000,"ingressBurst":1600000,"egressRate":8000000,"egressBurst":1600000}}`},
		{"none", `"capabilities":{"bandwidth":true}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := 60 + i
			var seen []string
			for j, plugins := range []string{p.reference, p.ours} {
				name := fmt.Sprintf("bw%d%d", n, j)
				conf := t.TempDir()
				list := fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[
				  {"type":"bridge","bridge":%q,"isGateway":true,"mtu":1400,"ipam":{"type":"host-local","dataDir":%q,"subnet":"10.77.%d.0/24"}},
				  {"type":"bandwidth",%s}]}`, name, name, t.TempDir(), n, tc.limits)
				if err := os.WriteFile(filepath.Join(conf, "10-bw.conflist"), []byte(list), 0o600); err != nil {
					t.Fatal(err)
				}
				s := side{t, p.cnitool, plugins, conf, name}
				namespace(t, name)
				links := hostIFBs(t)
				var env []string
				if tc.runtime != "" {
					env = []string{"CAP_ARGS=" + tc.runtime}
				}
				result := s.must("add", name, env...)
				if tc.limits != "" {
					s.must("check", name, env...)
				}
				seen = append(seen, limitsOf(t, result, name))
				s.must("del", name, env...)
				if left := hostIFBs(t); left != links {
					t.Errorf("%s: ifbs after DEL\n%s\nbefore\n%s", plugins, left, links)
				}
				if out, err := exec.Command("ip", "link", "del", name).CombinedOutput(); err != nil {
					t.Fatalf("delete bridge: %v\n%s", err, out)
				}
			}
			if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
				t.Errorf("what limits the pod (-reference +ours)\n%s", diff)
			}
		})
	}
}

func hostIFBs(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-o", "-br", "link", "show", "type", "ifb").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// limitsOf lists the qdiscs and filters of the host's interfaces in a result but for the bridge, and the interfaces, each under a
// name for its part.
func limitsOf(t *testing.T, result []byte, bridge string) string {
	t.Helper()
	var r struct {
		Interfaces []struct{ Name, Sandbox string }
	}
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	names := []string{}
	for _, dev := range r.Interfaces {
		fmt.Fprintf(&text, "interface %s of the container: %t\n", dev.Name, dev.Sandbox != "")
		if dev.Sandbox == "" && dev.Name != bridge {
			names = append(names, dev.Name)
		}
	}
	for _, name := range names {
		for _, args := range []string{"tc qdisc show dev " + name, "tc filter show dev " + name + " ingress", "ip -o link show dev " + name} {
			words := strings.Fields(args)
			out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", args, err, out)
			}
			text.Write(out)
		}
	}
	all := text.String()
	for i, name := range names {
		all = strings.ReplaceAll(all, name, []string{"HOSTEND", "IFB"}[min(i, 1)])
	}
	all = strings.NewReplacer("\\", "\n").Replace(all)
	var (
		kept    []string
		passing = regexp.MustCompile(`^\d+: |bw\d+|index \d+|link-netns \S+|link-netnsid \d+|qlen \d+|flowid \S+|ref \d+|refcnt \d+|bind \d+|@\S+|\*|not_in_hw|terminal`)
		burst   = regexp.MustCompile(`burst (\d{4})\d*b`) // the reference rounds to microseconds
	)
	for line := range strings.Lines(all) {
		// MACs and owners; and the reference redirects twice, the second time nothing.
		if strings.Contains(line, "link/ether") || strings.Contains(line, "alias") || strings.Contains(line, "action order 2: mirred") {
			continue
		}
		line = passing.ReplaceAllString(line, "")
		line = burst.ReplaceAllString(line, "burst $1")
		kept = append(kept, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(slices.DeleteFunc(kept, func(l string) bool { return l == "" }), "\n")
}
