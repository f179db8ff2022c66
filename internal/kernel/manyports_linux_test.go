package kernel_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
)

// ported is an attachment that publishes count ports from first on.
func ported(path, id string, first, count int) *libcni.RuntimeConf {
	var ports []string
	for p := range count {
		ports = append(ports, fmt.Sprintf(`{"hostPort":%d,"containerPort":80,"protocol":"tcp"}`, first+p))
	}
	return &libcni.RuntimeConf{ContainerID: id, NetNS: path, IfName: "eth0",
		CapabilityArgs: map[string]any{"portMappings": json.RawMessage("[" + strings.Join(ports, ",") + "]")}}
}

// TestB101ManyPorts: two hundred ports of a pod are one transaction, and ten ports cost the same, in messages exactly and in
// time about, whether the node has one pod or five hundred with ten each.
func TestB101ManyPorts(t *testing.T) {
	c, list, k := runtime(t, t.TempDir())
	if _, err := exec.LookPath("nft"); err != nil {
		sandbox.Need(t, "nft", err.Error())
	}
	ns := sandbox.Namespace(t).Path()
	// once attaches and detaches, and returns what the ADD cost.
	once := func(rt *libcni.RuntimeConf) (kernel.Stats, time.Duration) {
		t.Helper()
		before, start := k.Stats(), time.Now()
		if _, err := c.AddNetworkList(t.Context(), list, rt); err != nil {
			t.Fatal(err)
		}
		took, after := time.Since(start), k.Stats()
		if err := c.DelNetworkList(t.Context(), list, rt); err != nil {
			t.Fatal(err)
		}
		return kernel.Stats{Rtnetlink: after.Rtnetlink - before.Rtnetlink, NftTransactions: after.NftTransactions - before.NftTransactions,
			NftMessages: after.NftMessages - before.NftMessages}, took
	}
	once(ported(ns, "warm", 10, 1)) // makes the tables
	if cost, took := once(ported(ns, "many", 1000, 200)); cost.NftTransactions != 1 || took > 5*time.Second {
		t.Errorf("200 ports: %d transactions, %v", cost.NftTransactions, took)
	}
	best := func() (kernel.Stats, time.Duration) {
		cost, fastest := once(ported(ns, "ten", 2000, 10))
		for range 4 {
			_, took := once(ported(ns, "ten", 2000, 10))
			fastest = min(fastest, took)
		}
		return cost, fastest
	}
	alone, fast := best()
	fill(t, 500, 10)
	among, slow := best()
	if among != alone || among.NftTransactions != 1 {
		t.Errorf("ADD alone sends %+v, among 500 pods %+v", alone, among)
	}
	if slow > 3*fast+20*time.Millisecond {
		t.Errorf("ADD alone takes %v, among 500 pods %v", fast, slow)
	}
	t.Logf("ADD with ten ports alone %v, among 500 pods with ten each %v", fast, slow)
}

// fill puts into the maps of ports what so many pods with ports of their own put there.
func fill(t *testing.T, pods, ports int) {
	t.Helper()
	var elements, hairpins []string
	for i := range pods * ports {
		comment := fmt.Sprintf("0123abcd-%012x bench other-%d eth0", i/ports, i/ports)
		elements = append(elements, fmt.Sprintf("tcp . %d comment %q : 10.88.%d.%d . 80", 20000+i, comment, i/ports/250, i/ports%250+2))
		hairpins = append(hairpins, fmt.Sprintf("10.88.0.0 . tcp . %d comment %q", 20000+i, comment))
	}
	name := filepath.Join(t.TempDir(), "elements")
	text := "add element inet cleat hostports4 { " + strings.Join(elements, ", ") + " }\n" +
		"add element inet cleat hairpin4_16 { " + strings.Join(hairpins, ", ") + " }\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nft := func(args ...string) {
		if out, err := exec.CommandContext(t.Context(), "nft", args...).CombinedOutput(); err != nil {
			t.Fatalf("nft %s: %v\n%.500s", args, err, out)
		}
	}
	nft("-f", name)
	t.Cleanup(func() {
		for _, set := range []string{"map inet cleat hostports4", "set inet cleat hairpin4_16"} {
			if out, err := exec.Command("nft", slices.Concat([]string{"flush"}, strings.Fields(set))...).CombinedOutput(); err != nil {
				t.Errorf("flush %s: %v\n%s", set, err, out)
			}
		}
	})
}
