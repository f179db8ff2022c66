package cli

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDaemon has cleat become cleatd, with the arguments as they are.
func TestDaemon(t *testing.T) {
	const missing = "start /usr/bin/cleatd: file does not exist\nhint: build it beside cleat (make build), or install both (make install)\n"
	for _, tt := range []struct {
		name    string
		program string
		gone    bool
		args    []string
		status  int
		want    []string
		stderr  string
	}{
		{name: "agent", program: "/usr/bin/cleat", args: []string{"agent", "--manifests", "x", "-v"}, status: 1,
			want: []string{"/usr/bin/cleatd", "cleat", "agent", "--manifests", "x", "-v"}, stderr: "cleat: start /usr/bin/cleatd: it came back\n"},
		{name: "command-below", program: "/usr/bin/cleat", args: []string{"pods", "exec", "web", "--", "ls", "--help"}, status: 1,
			want: []string{"/usr/bin/cleatd", "cleat", "pods", "exec", "web", "--", "ls", "--help"}, stderr: "cleat: start /usr/bin/cleatd: it came back\n"},
		{name: "flags-before", program: "/usr/bin/cleat", args: []string{"-o", "json", "pods", "-A"}, status: 1,
			want: []string{"/usr/bin/cleatd", "cleat", "pods", "-o", "json", "-A"}},
		{name: "help", program: "/usr/bin/cleat", args: []string{"pods", "--help"}, status: 1,
			want: []string{"/usr/bin/cleatd", "cleat", "pods", "--help"}, stderr: "cleat: start /usr/bin/cleatd: it came back\n"},
		{name: "help-command", program: "/usr/bin/cleat", args: []string{"help", "agent"}, want: []string{"/usr/bin/cleatd", "cleat", "agent", "--help"}},
		{name: "completion", program: "/usr/bin/cleat", args: []string{"__complete", "pods", "logs", ""},
			want: []string{"/usr/bin/cleatd", "cleat", "__complete", "pods", "logs", ""}, stderr: "Completion ended with directive: ShellCompDirectiveNoFileComp\n"},
		{name: "not-there", program: "/usr/bin/cleat", gone: true, args: []string{"pods"}, status: 1,
			want: []string{"/usr/bin/cleatd", "cleat", "pods"}, stderr: "cleat: " + missing},
		{name: "where-is-cleat", args: []string{"pods"}, status: 1, stderr: "cleat: where cleat lies is not known, and so neither where cleatd does\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			var out, errs bytes.Buffer
			status := Main(t.Context(), Config{
				Args: tt.args, Env: func(string) string { return "" }, Stdout: &out, Stderr: &errs, Program: tt.program,
				Exec: func(path string, argv []string) error {
					got = append([]string{path}, argv...)
					if tt.gone {
						return fs.ErrNotExist
					}
					return nil
				},
			})
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("became (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.stderr, errs.String()); diff != "" && !slices.Contains(tt.args, "json") {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAttachmentsOfTheAgent finds what was recorded in another folder than that of the flags.
func TestAttachmentsOfTheAgent(t *testing.T) {
	s := newStage(t, map[string]string{"10.conflist": pairNet})
	s.mustRun("add", "mynet", s.kernel.NewPod(), "--id", "c1")
	a := &app{cfg: Config{NewRunner: s.newRunner, LockDir: filepath.Join(s.dir, "lock"), Stderr: &bytes.Buffer{}}, stateDir: t.TempDir()}
	for dir, want := range map[string]int{a.stateDir: 0, filepath.Join(s.dir, "state"): 1} {
		list, err := a.attachmentsIn(t.Context(), dir)
		if err != nil || len(list) != want {
			t.Errorf("%s: %v, %v, want %d", dir, list, err, want)
		}
	}
	for _, tt := range []struct {
		args []string
		want bool
	}{{[]string{"version"}, true}, {[]string{"version", "--state-dir", s.dir}, false}, {[]string{"version", "--state-dir", "/var/lib/cni"}, false}} {
		var errs bytes.Buffer
		got, err := execute(t.Context(), Config{Args: tt.args, Env: func(string) string { return "" }, Stdout: &errs, Stderr: &errs,
			NewRunner: s.newRunner, LockDir: filepath.Join(s.dir, "lock")})
		if err != nil || got.agentState != tt.want {
			t.Errorf("%v: %v, what the agent recorded is shown: %v, want %v", tt.args, err, got.agentState, tt.want)
		}
	}
}
