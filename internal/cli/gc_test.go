package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGC: attachments whose namespace is gone are freed, also where the network's file is gone, and a dry run changes nothing.
func TestGC(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet, "20-other.conflist": strings.ReplaceAll(pairNet, "mynet", "other")})
	s.mustRun("add", "mynet", s.kernel.NewPod(), "--id", "c1")
	s.mustRun("add", "other", s.kernel.NewPod(), "--id", "dead")
	// The kernel in memory has no namespaces that the records could find: all recorded ones are gone for them.
	if err := os.Remove(filepath.Join(s.dir, "net.d", "20-other.conflist")); err != nil {
		t.Fatal(err)
	}
	before := s.kernel.Dump()
	_, table, _ := s.run(t.Context(), "gc", "--dry-run")
	if !strings.HasPrefix(table, "WOULD FREE   OWNER") || !strings.Contains(table, "attachment   other/dead/eth0") || strings.Contains(table, "KEPT") {
		t.Errorf("dry run:\n%s", table)
	}
	dry := s.mustRun("gc", "--dry-run", "-o", "json")
	if diff := cmp.Diff(before, s.kernel.Dump()); diff != "" {
		t.Errorf("the dry run changed something (-before +after)\n%s", diff)
	}
	real := s.mustRun("gc", "-o", "json")
	if diff := cmp.Diff(dry, real); diff != "" {
		t.Errorf("dry run and real one (-dry +real)\n%s", diff)
	}
	var v gcView
	if err := json.Unmarshal([]byte(real), &v); err != nil {
		t.Fatal(err)
	}
	want := collectedView{Kind: "attachment", Name: "other/dead/eth0", Network: "other", ContainerID: "dead", IfName: "eth0", Why: "its namespace is gone"}
	found := false
	for _, f := range v.Freed {
		found = found || f == want
	}
	if !found || len(v.Kept) != 0 || !strings.Contains(real, `"kept": []`) {
		t.Errorf("freed %+v, want also %+v", v, want)
	}
	if out := s.mustRun("gc"); out != "nothing to free\n" {
		t.Errorf("again:\n%s", out)
	}
}

// TestGCOfNobody: an interface that no record claims is kept, until --unknown.
func TestGCOfNobody(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	s.mustRun("add", "mynet", s.kernel.NewPod(), "--id", "c1")
	if err := os.RemoveAll(filepath.Join(s.dir, "state", "results")); err != nil {
		t.Fatal(err)
	}
	out := s.mustRun("gc", "mynet")
	if !strings.Contains(out, "nothing to free\nKEPT   OWNER") || !strings.Contains(out, "mynet/c1/eth0") || !strings.Contains(out, "--unknown frees it") {
		t.Errorf("gc:\n%s", out)
	}
	if out := s.mustRun("gc", "--unknown"); !strings.Contains(out, "FREED   OWNER") || strings.Contains(out, "KEPT") {
		t.Errorf("gc --unknown:\n%s", out)
	}
	if strings.Contains(s.kernel.Dump(), "veth") {
		t.Errorf("left:\n%s", s.kernel.Dump())
	}
}

func TestGCNotes(t *testing.T) {
	s := newStage(t, map[string]string{
		"10-mynet.conflist": `{"cniVersion": "1.1.0", "name": "mynet", "plugins": [{"type": "pair"}, {"type": "foreign"}]}`,
		"20-old.conflist":   `{"cniVersion": "1.0.0", "name": "old", "plugins": [{"type": "foreign"}]}`,
		"30-off.conflist":   `{"cniVersion": "1.1.0", "name": "off", "disableGC": true, "plugins": [{"type": "pair"}]}`,
	})
	s.program("foreign", "#!/bin/sh\ncat >/dev/null\n")
	for _, tc := range []struct{ args, note string }{
		{"gc mynet --dry-run", "note: network mynet: foreign is a program: what it would free is not known\n"},
		{"gc mynet", "note: network mynet: foreign is a program: it is told to collect, and what it frees is not known\n"},
		{"gc old", "note: network old: foreign is a program and its version 1.0.0 has no GC: it is not asked\n"},
		{"gc off", "note: network off is left alone: it has disableGC\n"},
	} {
		status, _, errs := s.run(t.Context(), strings.Fields(tc.args)...)
		if status != 0 || errs != tc.note {
			t.Errorf("%s: status %d, stderr %q, want %q", tc.args, status, errs, tc.note)
		}
	}
	if status, _, errs := s.run(t.Context(), "gc", "mynte"); status != 1 || !strings.Contains(errs, "did you mean mynet?") {
		t.Errorf("unknown network: status %d\n%s", status, errs)
	}
}

// TestGCUnreadable: a recorded configuration that can't be read is an error, and hides nothing.
func TestGCUnreadable(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	s.mustRun("add", "mynet", s.kernel.NewPod(), "--id", "c1")
	record := `{"kind":"cniCacheV1","containerId":"c2","config":"e30=","ifName":"eth0","networkName":"lost","result":{"cniVersion":"1.0.0"}}`
	if err := os.WriteFile(filepath.Join(s.dir, "state", "results", "lost-c2-eth0"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := s.run(t.Context(), "gc")
	if status != 1 || !strings.Contains(errs, "lost-c2-eth0") || !strings.Contains(out, "mynet/c1/eth0") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	status, out, _ = s.run(t.Context(), "gc", "-o", "json")
	var got struct {
		Msg         string
		Freed, Kept *[]collectedView
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 1 || !strings.Contains(got.Msg, "lost-c2-eth0") || got.Freed == nil || got.Kept == nil {
		t.Errorf("status %d, %v\n%s", status, err, out)
	}
}

func TestStatusCommand(t *testing.T) {
	s := newStage(t, map[string]string{
		"10-mynet.conflist":   pairNet,
		"20-old.conflist":     `{"cniVersion": "0.4.0", "name": "old", "plugins": [{"type": "pair"}, {"type": "foreign"}]}`,
		"30-missing.conflist": `{"cniVersion": "1.0.0", "name": "missing", "plugins": [{"type": "pair"}, {"type": "pare"}, {"type": "foreign", "ipam": {"type": "none-such"}}]}`,
		"40-young.conflist":   `{"cniVersion": "1.1.0", "name": "young", "plugins": [{"type": "foreign"}]}`,
	})
	s.program("foreign", `#!/bin/sh
cat >/dev/null
echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}'
`)
	status, out, errs := s.run(t.Context(), "status", "-o", "json")
	if status != 3 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	var got []statusView
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	notAsked := "not asked: it is a program, and version 0.4.0 has no STATUS"
	want := []statusView{
		{"mynet", true, 0, "pair", ""}, {"old", true, 0, "pair", ""}, {"old", true, 0, "foreign", notAsked},
		{"missing", true, 0, "pair", ""}, {"missing", false, 50, "pare", ""}, {"missing", false, 50, "none-such", ""},
		{"young", false, 1, "foreign", ""},
	}
	for i, v := range got {
		if !v.Ready {
			if v.Msg == "" {
				t.Errorf("%s: no message", v.Plugin)
			}
			got[i].Msg = ""
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s\n%s", diff, out)
	}
	if out := s.mustRun("status", "mynet"); out != "NETWORK   PLUGIN   STATUS   CODE   MESSAGE\nmynet     pair     ready    -      -\n" {
		t.Errorf("table:\n%s", out)
	}
	if status, _, errs := s.run(t.Context(), "status", "mynte"); status != 1 || !strings.Contains(errs, "did you mean mynet?") {
		t.Errorf("unknown network: status %d\n%s", status, errs)
	}
}

func TestRepairCommand(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	ns := s.kernel.NewPod()
	s.mustRun("add", "mynet", ns, "--id", "c1")
	before := s.kernel.Dump()
	if out := s.mustRun("repair", "mynet", ns, "--id", "c1"); out != "" {
		t.Errorf("nothing to repair:\n%s", out)
	}
	harm := func() {
		t.Helper()
		if err := s.kernel.DelLink(ns, "eth0"); err != nil {
			t.Fatal(err)
		}
	}
	harm()
	if out := s.mustRun("repair", "mynet", ns, "--id", "c1"); !strings.Contains(out, "made:    pod  link eth0 kind veth") {
		t.Errorf("repair:\n%s", out)
	}
	if diff := cmp.Diff(before, s.kernel.Dump()); diff != "" {
		t.Errorf("not as before (-before +after)\n%s", diff)
	}
	harm()
	var list []finding
	out := s.mustRun("repair", "mynet", ns, "--id", "c1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 || list[0].Want == "" || list[0].Network != "" {
		t.Errorf("%v, %d in %s", err, len(list), out)
	}
	status, out, errs := s.run(t.Context(), "repair", "mynet", ns, "--id", "c1", "--exec-only")
	if status != 1 || out != "" || errs == "" {
		t.Errorf("with programs that are missing: status %d\n%s%s", status, out, errs)
	}
	s.program("pair", `#!/bin/sh
cat >/dev/null
echo '{"cniVersion":"1.1.0","code":100,"msg":"it is not so"}'
exit 1
`)
	status, out, errs = s.run(t.Context(), "repair", "mynet", ns, "--id", "c1", "--exec-only")
	if status != 3 || out != "" || !strings.HasPrefix(errs, "pair: it is not so\nnote: what a program of its own made is not repaired") {
		t.Errorf("what a program finds: status %d\n%s%s", status, out, errs)
	}
	// The namespaces of the kernel in memory are gone for the records.
	if status, _, errs := s.run(t.Context(), "repair", "--all"); status != 3 || !strings.Contains(errs, "cleat gc frees what is left") {
		t.Errorf("orphan: status %d\n%s", status, errs)
	}
}
