package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/lint"
)

const wrongNet = `{
  "cniVersion": "1.1.0",
  "name": "mynet",
  "plugins": [
    {"type": "pair", "mtu": "1400", "mttu": 5},
    {"type": "paar",},
    {"type": "vendor"}
  ]
}
`

// atRoot takes the folder of a stage out of an output.
func (s *stage) atRoot(out string) string { return strings.ReplaceAll(out, s.dir+"/", "") }

func TestLint(t *testing.T) {
	s := newStage(t, map[string]string{"10-net.conflist": wrongNet})
	status, out, errs := s.run(t.Context(), "lint")
	if status != exitFound {
		t.Errorf("status %d, want %d", status, exitFound)
	}
	want := `error[L104]: mtu wants a whole number, and this is a string
 --> net.d/10-net.conflist:5:29
  |
5 |     {"type": "pair", "mtu": "1400", "mttu": 5},
  |                             ^^^^^^
  = help: write 1400

error[L101]: unknown key "mttu" of pair
 --> net.d/10-net.conflist:5:37
  |
5 |     {"type": "pair", "mtu": "1400", "mttu": 5},
  |                                     ^^^^^^
  = help: did you mean mtu?

error[L601]: there is no plugin paar
 --> net.d/10-net.conflist:6:14
  |
6 |     {"type": "paar",},
  |              ^^^^^^
  = help: did you mean pair?

error[L001]: trailing comma
 --> net.d/10-net.conflist:6:20
  |
6 |     {"type": "paar",},
  |                    ^
  = help: remove the , before }

warning[L601]: the plugin vendor is not installed here
 --> net.d/10-net.conflist:7:14
  |
7 |     {"type": "vendor"}
  |              ^^^^^^^^
  = help: install it, or name its folder with --plugin-dir

`
	if diff := cmp.Diff(want, s.atRoot(out)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if want := "1 file: 4 errors, 1 warning\n"; errs != want {
		t.Errorf("stderr %q, want %q", errs, want)
	}
}

func TestLintJSON(t *testing.T) {
	s := newStage(t, map[string]string{"10-net.conflist": wrongNet, "20-good.conflist": strings.ReplaceAll(pairNet, "mynet", "other")})
	status, out, errs := s.run(t.Context(), "lint", "-o", "json", filepath.Join(s.dir, "net.d", "10-net.conflist"))
	if status != exitFound || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	var found []lint.Finding
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&found); err != nil {
		t.Fatal(err)
	}
	if len(found) != 5 || found[0].Rule != "L104" || found[0].Line != 5 || found[0].Column != 29 || found[0].Hint != "write 1400" {
		t.Errorf("findings %+v", found)
	}
	if out := s.mustRun("lint", "-o", "json", filepath.Join(s.dir, "net.d", "20-good.conflist")); out != "[]\n" {
		t.Errorf("findings of what is good: %s", out)
	}
}

func TestLintGood(t *testing.T) {
	s := newStage(t, map[string]string{"10-net.conflist": pairNet})
	status, out, errs := s.run(t.Context(), "lint")
	if status != exitDone || out != "" || errs != "1 file: nothing found\n" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

// TestLintWarningsAlone wants status 0 where there is no error.
func TestLintWarningsAlone(t *testing.T) {
	s := newStage(t, map[string]string{"10-net.conflist": `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "vendor"}]}`})
	status, _, errs := s.run(t.Context(), "lint")
	if status != exitDone || errs != "1 file: 1 warning, 1 info\n" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

func TestLintFix(t *testing.T) {
	s := newStage(t, map[string]string{"10-net.conflist": wrongNet, "20-good.conflist": strings.ReplaceAll(pairNet, "mynet", "other")})
	path := filepath.Join(s.dir, "net.d", "10-net.conflist")
	link := filepath.Join(s.dir, "link.conflist")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	_, _, errs := s.run(t.Context(), "lint", "--fix", "--dry-run")
	if want := "would mend net.d/10-net.conflist:5:29: mtu wants a whole number, and this is a string\n" +
		"would mend net.d/10-net.conflist:6:20: trailing comma\n"; !strings.HasPrefix(s.atRoot(errs), want) {
		t.Errorf("dry run: %s", errs)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != wrongNet {
		t.Errorf("the dry run changed the file, or it is gone: %v\n%s", err, data)
	}
	status, _, errs := s.run(t.Context(), "lint", "--fix", link)
	if want := "mended link.conflist\n1 file: 2 errors, 1 warning\n"; status != exitFound || s.atRoot(errs) != want {
		t.Errorf("status %d, stderr %q, want %q", status, s.atRoot(errs), want)
	}
	want := strings.NewReplacer(`"1400"`, `1400`, `,}`, `}`).Replace(wrongNet)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("the file (-want +got)\n%s", diff)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v, %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info, err)
	}
	if _, _, errs := s.run(t.Context(), "lint", "--fix"); strings.Contains(errs, "mended") {
		t.Errorf("mended again: %s", errs)
	}
}

// TestLintAsksPrograms asks programs for their versions.
func TestLintAsksPrograms(t *testing.T) {
	s := newStage(t, map[string]string{"10-net.conflist": `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "old"}, {"type": "mute"}]}`})
	s.program("old", "#!/bin/sh\necho '{\"cniVersion\":\"0.4.0\",\"supportedVersions\":[\"0.3.1\",\"0.4.0\"]}'\n")
	s.program("mute", "#!/bin/sh\nexit 1\n")
	out := s.mustRun("lint")
	if !strings.Contains(out, "old does not speak version 1.1.0") || !strings.Contains(out, "the highest that all plugins of the network speak is 0.4.0") {
		t.Errorf("lint:\n%s", out)
	}
	if strings.Contains(out, "mute does") || strings.Contains(out, "L601") {
		t.Errorf("a program that says no version is told of:\n%s", out)
	}
}

func TestLintWhy(t *testing.T) {
	s := newStage(t, nil)
	if out := s.mustRun("lint", "--why", "l101"); !strings.HasPrefix(out, "L101 unknown-key\n\n") {
		t.Errorf("why:\n%s", out)
	}
	if out := s.mustRun("lint", "--why", "key-case"); !strings.Contains(out, "--fix mends") {
		t.Errorf("why:\n%s", out)
	}
}

func TestLintUsage(t *testing.T) {
	s := newStage(t, map[string]string{"10-net.conflist": pairNet})
	for name, args := range map[string][]string{
		"dry-run-alone": {"lint", "--dry-run"}, "max-pods": {"lint", "--max-pods=-1"}, "no-rule": {"lint", "--why", "L999"},
		"why-file": {"lint", "--why", "L101", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			if status, out, _ := s.run(t.Context(), args...); status != exitUsage || out != "" {
				t.Errorf("status %d, stdout %q", status, out)
			}
		})
	}
	if status, _, errs := s.run(t.Context(), "lint", filepath.Join(s.dir, "no-such")); status != exitFailed || !strings.Contains(errs, "no-such") {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	if _, _, errs := s.run(t.Context(), "lint", "--why", "unknown-kee"); !strings.Contains(errs, "did you mean unknown-key?") {
		t.Errorf("stderr %q", errs)
	}
}
