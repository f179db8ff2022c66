package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/filelock"
)

// TestWrongArguments: what is wrong in the arguments is said once, with exit status 2.
func TestWrongArguments(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		env        map[string]string
		stderr     string // all of it
	}{
		{name: "interface", args: "add mynet ns -i a/b", stderr: "cleat: interface name \"a/b\": may not hold / : or %\n"},
		{name: "interface-check", args: "check mynet ns -i a/b", stderr: "cleat: interface name \"a/b\": may not hold / : or %\n"},
		{name: "id", args: "add mynet ns --id -x", stderr: "cleat: container ID \"-x\": must begin with a letter or digit (A-Z, a-z, 0-9)\n"},
		{name: "id-del", args: "del --id -x", stderr: "cleat: container ID \"-x\": must begin with a letter or digit (A-Z, a-z, 0-9)\n"},
		{name: "help", args: "help nope", stderr: "cleat: unknown command \"nope\"\nhint: see cleat --help\n"},
		{name: "help-near", args: "help ad", stderr: "cleat: unknown command \"ad\"\nhint: did you mean add?\n"},
		{name: "completion", args: "completion nope", stderr: "cleat: unknown command \"nope\"\nhint: there is bash, fish, powershell, zsh\n"},
		{name: "two-missing", args: "add", stderr: "cleat: NETWORK and NETNS are missing\nhint: usage: cleat add NETWORK NETNS [flags]\n"},
		{name: "cni-args", args: "add mynet ns", env: map[string]string{"CNI_ARGS": "x"},
			stderr: "cleat: CNI_ARGS: part 1 is no pair KEY=value\nhint: separate pairs with ; and write each as KEY=value\n"},
		{name: "duration", args: "networks --timeout soon", stderr: "cleat: --timeout: \"soon\" is no duration, such as 30s or 5m\nhint: see cleat networks --help\n"},
		{name: "conf-dir-empty", args: "networks --conf-dir=", stderr: "cleat: --conf-dir is empty\n"},
		{name: "plugin-dir-empty", args: "networks --plugin-dir=", stderr: "cleat: --plugin-dir is empty\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
			s.env = tc.env
			status, out, stderr := s.run(t.Context(), strings.Fields(tc.args)...)
			if status != 2 || out != "" || stderr != tc.stderr {
				t.Errorf("status %d, stdout %q, stderr %q, want %q", status, out, stderr, tc.stderr)
			}
		})
	}
}

func TestHelpAndCompletion(t *testing.T) {
	s := newStage(t, nil)
	for args, want := range map[string]string{
		"help":            "cleat attaches containers",
		"help add":        "Attaches a network namespace",
		"completion":      "Generate the autocompletion script",
		"completion bash": "# bash completion V2 for cleat",
	} {
		// Without the flags that run adds: these commands print what they were asked for.
		status, out, stderr := s.complete(strings.Fields(args)...)
		if status != 0 || stderr != "" || !strings.HasPrefix(out, want) {
			t.Errorf("%s: status %d, stderr %q, stdout begins %.60q, want %q", args, status, stderr, out, want)
		}
	}
}

// TestHintOfSudo: to root it says nothing.
func TestHintOfSudo(t *testing.T) {
	for _, tc := range []struct {
		name string
		euid int
		hint bool
	}{{"root", 0, false}, {"other", 1000, true}} {
		t.Run(tc.name, func(t *testing.T) {
			a := &app{cfg: Config{EUID: tc.euid}}
			f := a.describe(fmt.Errorf("open namespace /proc/1/ns/net: %w", os.ErrPermission))
			if got := f.Hint != ""; got != tc.hint {
				t.Errorf("hint %q", f.Hint)
			}
		})
	}
}

// TestNamespaceThatIsNone: a name that is there is not said to have been meant instead of itself.
func TestNamespaceThatIsNone(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	for _, name := range []string{"red", "rad"} {
		path := filepath.Join(s.dir, "netns", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, errs := s.run(t.Context(), "add", "mynet", "red"); status != 1 || strings.Contains(errs, "did you mean") {
		t.Errorf("status %d\n%s", status, errs)
	}
	if status, _, errs := s.run(t.Context(), "add", "mynet", "ret"); status != 1 || !strings.Contains(errs, "hint: did you mean red") {
		t.Errorf("status %d\n%s", status, errs)
	}
}

// TestBrokenRecordIsNamed: a record that says nothing of itself is named by its file.
func TestBrokenRecordIsNamed(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	path := filepath.Join(s.dir, "state", "results", "mynet-c1-eth0")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, want := s.mustRun("ls"), "\nBroken records:\n  mynet-c1-eth0: read record "+path+": empty file\n"; !strings.HasSuffix(out, want) {
		t.Errorf("ls:\n%s\nwant at its end %q", out, want)
	}
}

// TestTimeout: the end of the time is told once, as what it is, whoever was waited for.
func TestTimeout(t *testing.T) {
	s := newStage(t, map[string]string{
		"10-mynet.conflist": pairNet,
		"20-other.conflist": `{"cniVersion": "1.1.0", "name": "other", "plugins": [{"type": "slow"}, {"type": "slow"}]}`,
	})
	for _, verb := range []string{"add", "del"} {
		s.program("slow", fmt.Sprintf("#!/bin/sh\n[ $CNI_COMMAND = %s ] && exec sleep 60\nexit 0\n", strings.ToUpper(verb)))
		s.timesOut(verb, "other", "/ns", "--id", "c1")
	}
	for i := range 256 {
		l, err := filelock.Try(filepath.Join(s.dir, "lock", fmt.Sprintf("operation-%02x.lock", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
	}
	for _, args := range [][]string{{"add", "mynet", "/ns"}, {"del", "mynet", "/ns"}, {"gc"}} {
		s.timesOut(args...)
	}
}

func (s *stage) timesOut(args ...string) {
	s.t.Helper()
	status, _, errs := s.run(s.t.Context(), append(args, "--timeout", "50ms")...)
	if status != 1 || strings.Count(errs, "no end within 50ms (--timeout)") != 1 || strings.Contains(errs, "context deadline exceeded") {
		s.t.Errorf("%v: status %d\n%s", args, status, errs)
	}
}

// TestVersionOfTheFuture: the error names the file, and a default that can't be used is told of.
func TestVersionOfTheFuture(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": strings.Replace(pairNet, "1.1.0", "9.9.9", 1)})
	file := filepath.Join(s.dir, "net.d", "10-mynet.conflist")
	status, _, errs := s.run(t.Context(), "add", "mynet", "/ns")
	if status != 1 || !strings.Contains(errs, file+": cniVersion \"9.9.9\"") || !strings.Contains(errs, "hint: set cniVersion to 1.1.0") {
		t.Errorf("add: status %d\n%s", status, errs)
	}
	if out := s.mustRun("networks"); !strings.Contains(out, "but its cniVersion is not spoken here") {
		t.Errorf("networks:\n%s", out)
	}
}
