package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/doctor"
)

// sick is a node with faults that can be mended without a question.
func sick(t *testing.T) *stage {
	s := newStage(t, map[string]string{"10-net.conflist": pairNet})
	for name, text := range map[string]string{
		"proc/sys/kernel/osrelease": "4.4.0",
		"run/netns/gone":            "",
		"proc/self/mountinfo":       "1 1 0:1 / / rw - ext4 x rw\n",
	} {
		path := filepath.Join(s.dir, "root", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestDoctor(t *testing.T) {
	s := sick(t)
	status, out, errs := s.run(t.Context(), "doctor")
	if status != exitFound {
		t.Errorf("status %d, want %d", status, exitFound)
	}
	for _, want := range []string{
		"failed    kernel-release    the kernel is 4.4.0", "warning   dead-namespaces   /run/netns/gone leads to no namespace",
		"kernel-release: install a kernel of 5.10 or later",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing of %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "ok ") || !strings.Contains(errs, "1 failed, 1 warning") {
		t.Errorf("stdout\n%s\nstderr %s", out, errs)
	}
	if _, out, _ := s.run(t.Context(), "doctor", "-v"); !strings.Contains(out, "every address that is taken has an owner") {
		t.Errorf("with -v what is well is not told:\n%s", out)
	}
}

func TestDoctorJSON(t *testing.T) {
	s := sick(t)
	status, out, _ := s.run(t.Context(), "doctor", "-o", "json")
	var found []doctor.Result
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&found); err != nil || status != exitFound || len(found) < len(doctor.Checks()) {
		t.Errorf("status %d, %d results, error %v", status, len(found), err)
	}
	if out := s.mustRun("doctor", "full-pools", "-o", "json"); strings.Count(out, `"check"`) != 1 {
		t.Errorf("one check:\n%s", out)
	}
}

func TestDoctorFix(t *testing.T) {
	s := sick(t)
	gone := filepath.Join(s.dir, "root", "run", "netns", "gone")
	_, _, errs := s.run(t.Context(), "doctor", "--fix", "--dry-run")
	if _, err := os.Stat(gone); err != nil || !strings.HasPrefix(errs, "would remove /run/netns/gone\n") {
		t.Errorf("dry run: stderr %q, the file: %v", errs, err)
	}
	status, out, errs := s.run(t.Context(), "doctor", "--fix", "dead-namespaces")
	if _, err := os.Stat(gone); err == nil || status != exitDone || !strings.HasPrefix(errs, "did remove /run/netns/gone\n") || strings.Contains(out, "gone") {
		t.Errorf("status %d, stderr %q, the file: %v\n%s", status, errs, err, out)
	}
}

// TestRemedies does each remedy.
func TestRemedies(t *testing.T) {
	s := sick(t)
	a := &app{cfg: Config{Root: filepath.Join(s.dir, "root")}}
	file := filepath.Join(s.dir, "root", "etc", "open")
	for _, dir := range []string{"etc", "proc/sys/net/ipv4"} {
		if err := os.MkdirAll(filepath.Join(s.dir, "root", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, m := range []doctor.Remedy{{Close: "/etc/open"}, {Sysctl: doctor.Sysctl{Name: "net/ipv4/ip_forward", Value: "1"}}} {
		what, do := a.remedyOf(t.Context(), m)
		if err := do(); err != nil || what == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o664 {
		t.Errorf("mode %v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "root/proc/sys/net/ipv4/ip_forward")); err != nil || string(text) != "1\n" {
		t.Errorf("sysctl %q, %v", text, err)
	}
	if _, do := a.remedyOf(t.Context(), doctor.Remedy{Remove: "/no/such"}); do() != nil {
		t.Error("an error for a file that is gone already")
	}
	if _, do := a.remedyOf(t.Context(), doctor.Remedy{Close: "/no/such"}); do() == nil {
		t.Error("no error for a file that is not there")
	}
}

// TestDoctorAsUser skips what only root can see.
func TestDoctorAsUser(t *testing.T) {
	s := sick(t)
	s.euid = 1000
	_, out, _ := s.run(t.Context(), "doctor")
	if !strings.Contains(out, "skipped   orphans") || !strings.Contains(out, "only root can look") || !strings.Contains(out, "failed    kernel-release") {
		t.Errorf("as a user:\n%s", out)
	}
}

func TestDoctorUsage(t *testing.T) {
	s := sick(t)
	for name, args := range map[string][]string{"no-check": {"doctor", "full-pool"}, "dry-run-alone": {"doctor", "--dry-run"}} {
		t.Run(name, func(t *testing.T) {
			if status, out, _ := s.run(t.Context(), args...); status != exitUsage || out != "" {
				t.Errorf("status %d, stdout %q", status, out)
			}
		})
	}
	if _, _, errs := s.run(t.Context(), "doctor", "full-pool"); !strings.Contains(errs, "did you mean full-pools?") {
		t.Errorf("stderr %q", errs)
	}
}
