package lint_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/lint"
)

// FuzzLint judges and mends any bytes: nothing panics, every finding has a place in the file and a rule that there is, and what was
// changed is JSON, and is not changed again.
func FuzzLint(f *testing.F) {
	for _, s := range suites(f) {
		for _, file := range s.archive.Files {
			if filepath.Ext(file.Name) == ".conflist" {
				f.Add(unescape(file.Data))
			}
		}
	}
	good, err := txtar.ParseFile(filepath.Join("testdata", "good.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range good.Files {
		f.Add(file.Data)
	}
	l := linter(f, &node{Plugins: map[string][]string{}}, 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		folder := func(data []byte) lint.Folder {
			return lint.Folder{Path: ".", Files: []lint.File{{Path: "a.conflist", Data: data, Mode: 0o644}}}
		}
		found, err := l.Check(t.Context(), []lint.Folder{folder(data)})
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, f := range found {
			if f.Line < 1 || f.Line > lines || f.Column < 1 || f.Column > len(data)+1 || f.Message == "" {
				t.Errorf("finding without a place: %+v", f)
			}
			if _, ok := lint.RuleOf(f.Rule); !ok {
				t.Errorf("there is no rule %s", f.Rule)
			}
			f.Render(nil)
		}
		fixed := l.Fix(folder(data))
		if len(fixed) == 0 {
			return
		}
		if _, err := cni.ParseTree(fixed[0].Data); err != nil {
			t.Errorf("what was mended is not JSON: %v\n%s", err, fixed[0].Data)
		}
		if again := l.Fix(folder(fixed[0].Data)); len(again) > 0 {
			t.Errorf("what was mended is mended again:\n%s\nand then\n%s", fixed[0].Data, again[0].Data)
		}
	})
}

// many is a folder of n networks.
func many(n int) lint.Folder {
	f := lint.Folder{Path: ".", Whole: true}
	for i := range n {
		text := fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "net%d",
  "plugins": [
    {"type": "bridge", "bridge": "br%d", "isDefaultGateway": true, "ipMasq": true,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.%d.%d.0/24"}], [{"subnet": "fd00:%x::/64"}]]}},
    {"type": "portmap", "capabilities": {"portMappings": true}},
    {"type": "firewall"},
    {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}}
  ]
}
`, i, i, i/256, i%256, i)
		f.Files = append(f.Files, lint.File{Path: fmt.Sprintf("%04d.conflist", i), Data: []byte(text), Mode: 0o644})
	}
	return f
}

// TestSpeed wants 500 files to be judged in less than a second.
func TestSpeed(t *testing.T) {
	l := linter(t, &node{Plugins: map[string][]string{}}, 0)
	folder := many(500)
	began := time.Now()
	found, err := l.Check(t.Context(), []lint.Folder{folder})
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Severity == lint.Error {
			t.Fatalf("%+v", f)
		}
	}
	t.Logf("%d files in %v, %d findings", len(folder.Files), took, len(found))
	if took > time.Second && !raced {
		t.Errorf("%v, want less than a second", took)
	}
}

func BenchmarkCheck500(b *testing.B) {
	l := linter(b, nil, 0)
	folder := many(500)
	for b.Loop() {
		if _, err := l.Check(b.Context(), []lint.Folder{folder}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSameSubnet wants many networks of the same addresses to be told of once each.
func TestSameSubnet(t *testing.T) {
	folder := many(0)
	for i := range 200 {
		text := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "n%d", "plugins": [{"type": "bridge", "bridge": "br%d",
			"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}]]}}]}`, i, i)
		folder.Files = append(folder.Files, lint.File{Path: fmt.Sprintf("%04d.conflist", i), Data: []byte(text), Mode: 0o644})
	}
	found, err := linter(t, nil, 0).Check(t.Context(), []lint.Folder{folder})
	if err != nil {
		t.Fatal(err)
	}
	overlaps := 0
	for _, f := range found {
		if f.Rule == "L401" {
			overlaps++
		}
	}
	if overlaps != 199 {
		t.Errorf("%d overlaps, want 199", overlaps)
	}
}
