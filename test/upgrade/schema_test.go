package upgrade

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

// TestMain reads the flags.
func TestMain(m *testing.M) {
	flag.Bool("update", false, "add the shared objects that are new to testdata")
	flag.Parse()
	os.Exit(m.Run())
}

// shared lists the objects that attachments share, as the plugins' golden plans have them: those of nft and iptables without an owner.
func shared(t *testing.T) []string {
	t.Helper()
	plans, err := filepath.Glob("../../plugins/*/testdata/*.txtar")
	if err != nil || len(plans) < 50 {
		t.Fatalf("%d golden plans, %v", len(plans), err)
	}
	all := map[string]bool{}
	for _, path := range plans {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			ours := strings.HasPrefix(line, "host nft table ") || strings.HasPrefix(line, "host iptables ")
			if ours && !strings.Contains(line, " element ") && !strings.Contains(line, " owner ") {
				all[line] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// TestSharedObjectsKeepTheirForm: what running pods rely on is not given another meaning under its old name. A rule, a set or a chain that
// this schema has had is made as it was, or has another name, or there is another schema.
func TestSharedObjectsKeepTheirForm(t *testing.T) {
	path := filepath.Join("testdata", fmt.Sprintf("schema-%d.txt", netstate.Schema))
	text, err := os.ReadFile(path)
	if err != nil && !updating() {
		t.Fatal(err)
	}
	now := shared(t)
	var had []string
	for line := range strings.Lines(string(text)) {
		had = append(had, strings.TrimSuffix(line, "\n"))
	}
	for _, line := range had {
		if !slices.Contains(now, line) {
			t.Errorf("no golden plan has %q any more: see docs/upgrade.md", line)
		}
	}
	if !updating() {
		return
	}
	all := slices.Compact(slices.Sorted(slices.Values(append(had, now...))))
	if err := os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }
