package plannedtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

var update = flag.Bool("update", false, "rewrite the want.* parts of golden files")

// Golden runs every txtar file that pattern finds as a test of its own. A file holds what goes in:
//
//	config.json  what the plugin reads on standard input (required)
//	env          CNI_COMMAND and the like, one a line; the default is an ADD
//	ipam.json    the result of the IPAM plugin
//	seen.json    what there is in the kernel ([netstate.Facts]); the plugin gets of it what it asks for
//
// and what comes out: want.state, want.result and want.notes, or want.error. With -update the latter are
// written.
func Golden(t *testing.T, def planned.Definition, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome(t, def, archive)
			if *update {
				archive.Files = append(inputs(archive), got...)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(texts(wants(archive)), texts(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func isWant(f txtar.File) bool { return strings.HasPrefix(f.Name, "want.") }

func inputs(a *txtar.Archive) []txtar.File {
	return slices.DeleteFunc(slices.Clone(a.Files), isWant)
}

func wants(a *txtar.Archive) []txtar.File {
	return slices.DeleteFunc(slices.Clone(a.Files), func(f txtar.File) bool { return !isWant(f) })
}

func texts(files []txtar.File) map[string]string {
	m := map[string]string{}
	for _, f := range files {
		m[f.Name] = string(f.Data)
	}
	return m
}

// outcome plans what the archive says and returns the want.* files that would fit.
func outcome(t *testing.T, def planned.Definition, a *txtar.Archive) []txtar.File {
	t.Helper()
	in := texts(a.Files)
	known := []string{"config.json", "env", "ipam.json", "seen.json"}
	for _, f := range inputs(a) {
		if !slices.Contains(known, f.Name) {
			t.Fatalf("unknown part %s: it is one of %s", f.Name, strings.Join(known, ", "))
		}
	}
	p, req, err := planText(t, def, in)
	if err != nil {
		return []txtar.File{{Name: "want.error", Data: []byte(describe(err))}}
	}
	files := []txtar.File{{Name: "want.state", Data: []byte(p.State.String())}}
	if len(p.Notes) > 0 {
		files = append(files, txtar.File{Name: "want.notes", Data: []byte(strings.Join(p.Notes, "\n") + "\n")})
	}
	if p.Sweep {
		files = append(files, txtar.File{Name: "want.sweep", Data: []byte("what the owner has is looked for by its mark\n")})
	}
	if !p.Originals.IsEmpty() {
		files = append(files, txtar.File{Name: "want.originals", Data: []byte(p.Originals.String())})
	}
	if change := p.Interface; change.MAC != "" || change.MTU != 0 {
		files = append(files, txtar.File{Name: "want.interface", Data: fmt.Appendf(nil, "mac %q mtu %d\n", change.MAC, change.MTU)})
	}
	if p.Result != nil {
		encoded, err := p.Result.Encode(req.Conf.CNIVersion)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := json.Indent(&out, encoded, "", "  "); err != nil {
			t.Fatal(err)
		}
		files = append(files, txtar.File{Name: "want.result", Data: append(out.Bytes(), '\n')})
	}
	return files
}

func describe(err error) string {
	e := cni.AsError(err)
	s := fmt.Sprintf("%d: %s\n", e.Code, e)
	if e.Hint != "" {
		s += "hint: " + e.Hint + "\n"
	}
	return s
}

func planText(t *testing.T, def planned.Definition, parts map[string]string) (planned.Plan, *plugin.Request, error) {
	t.Helper()
	req, err := plugin.NewRequest(def.Info, environment(t, parts["env"]), []byte(parts["config.json"]))
	if err != nil {
		return planned.Plan{}, nil, err
	}
	in := planned.Input{Request: req}
	if text, ok := parts["ipam.json"]; ok {
		if in.IPAM, err = cni.DecodeResult([]byte(text), req.Conf.CNIVersion); err != nil {
			t.Fatalf("ipam.json: %v", err)
		}
	}
	var facts netstate.Facts
	if text, ok := parts["seen.json"]; ok {
		if err := json.Unmarshal([]byte(text), &facts); err != nil {
			t.Fatalf("seen.json: %v", err)
		}
	}
	p, err := def.Plan(in, func(q netstate.Query) netstate.Facts { return answer(facts, q) })
	return p, req, err
}

// answer is what a kernel with these facts answers.
func answer(all netstate.Facts, q netstate.Query) netstate.Facts {
	var f netstate.Facts
	for _, ref := range q.Links {
		if l, ok := all.Link(ref.Place, ref.Name); ok {
			f.Links = append(f.Links, l)
			f.Addrs = append(f.Addrs, all.AddrsOf(ref.Place, ref.Name)...)
			if end, ok := all.Link(netstate.Host, l.Peer); ok && q.Peers && ref.Place == netstate.Pod && l.PeerPlace == netstate.Host {
				f.Links = append(f.Links, end)
			}
		}
	}
	for _, ref := range q.Routing {
		f.Routes = append(f.Routes, all.RoutesOver(ref.Place, ref.Name)...)
		f.Rules, f.UsedTables = all.Rules, all.UsedTables
	}
	for _, v := range q.Sysctls {
		if value, ok := all.Sysctl(v.Place, v.Name); ok {
			f.Sysctls = append(f.Sysctls, netstate.Sysctl{Place: v.Place, Name: v.Name, Value: value})
		}
	}
	for _, path := range q.Files {
		if text, ok := all.Files[path]; ok {
			f.Files = map[string]string{path: text}
		}
	}
	f.NoNFTables = q.NFTables && all.NoNFTables
	f.Firewalld = q.Firewalld && all.Firewalld
	for _, e := range q.Elements {
		if all.HasElement(e) {
			f.Elements = append(f.Elements, e)
		}
	}
	if q.Forward {
		f.Forward = all.Forward
	}
	if q.WantsUplink(f) {
		f.Uplink = all.Uplink
	}
	return f
}

// environment reads K=V lines on top of those of an ADD.
func environment(t *testing.T, text string) plugin.Env {
	t.Helper()
	values := map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth0",
	}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || !strings.HasPrefix(key, "CNI_") {
			t.Fatalf("env: %q is not CNI_NAME=value", line)
		}
		values[key] = value
	}
	return plugin.EnvFrom(func(key string) string { return values[key] })
}
