//go:build unix

package pluginexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/pluginexec"
)

const result = `{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/16"}]}`

// script makes a plugin of a shell script.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fake")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, verb cni.Verb, body string) ([]byte, error) {
	t.Helper()
	return pluginexec.Run(t.Context(), pluginexec.Command{Path: script(t, body), Verb: verb, Env: os.Environ(), Stdin: []byte(`{"name":"net1"}`)})
}

func TestRun(t *testing.T) {
	var stderr bytes.Buffer
	path := script(t, `echo log >&2; echo "$CNI_COMMAND:$KEPT:$CNI_IFNAME" >&2; cat`)
	env := pluginexec.Environ([]string{"KEPT=yes", "CNI_COMMAND=old", "CNI_IFNAME=old", "PATH=" + os.Getenv("PATH")},
		map[string]string{"CNI_COMMAND": "ADD", "CNI_IFNAME": "eth0"})
	out, err := pluginexec.Run(t.Context(), pluginexec.Command{Path: path, Verb: cni.VerbAdd, Env: env, Stdin: []byte(" " + result + "\n"), Stderr: &stderr})
	if err != nil || string(out) != result {
		t.Errorf("out %s, %v", out, err)
	}
	if want := "log\nADD:yes:eth0\n"; stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
}

func TestEnviron(t *testing.T) {
	got := pluginexec.Environ([]string{"A=1", "CNI_ARGS=x", "B=2", "CNI_NETNS_OVERRIDE=1"}, map[string]string{"CNI_PATH": "/p", "CNI_ARGS": ""})
	want := []string{"A=1", "B=2", "CNI_NETNS_OVERRIDE=1", "CNI_ARGS=", "CNI_PATH=/p"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// TestB023StdoutThatIsNoResult: the error shows what the plugin did instead.
func TestB023StdoutThatIsNoResult(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		code       cni.Code
		want       []string // parts of the error, beside path and verb
	}{
		{"log-before", "echo starting; echo '" + result + "'", cni.CodeDecode, []string{"not one JSON object", "line 1, column 1", `"starting\n{`}},
		{"log-after", "echo '" + result + "'; echo done", cni.CodeDecode, []string{"not one JSON object", "line 2, column 1"}},
		{"two-objects", "echo '{}{}'", cni.CodeDecode, []string{"not one JSON object"}},
		{"error-with-exit-0", `echo '{"code":11,"msg":"no address","details":"pool is full"}'`, 11, []string{"exit status 0 but an error object", "no address", "pool is full"}},
		{"null", "echo null", cni.CodeDecode, []string{"not one JSON object", `"null\n"`}},
		{"array", "echo '[]'", cni.CodeDecode, []string{"not one JSON object"}},
		{"nul-bytes", `printf '\000\000{}'`, cni.CodeDecode, []string{"not one JSON object", `\x00`}},
		{"bom", `printf '\357\273\277{}'`, cni.CodeDecode, []string{"byte order mark"}},
		{"nothing", "echo why >&2", cni.CodeDecode, []string{"nothing on standard output", "stderr: why"}},
		{"truncated", `printf '{"cniVersion":'`, cni.CodeDecode, []string{"not one JSON object"}},
		{"endless", "yes", cni.CodeDecode, []string{"more than 8 MiB", "y\\ny\\n", "… (8388608 bytes)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := run(t, cni.VerbAdd, tc.body)
			checkError(t, err, tc.code, append(tc.want, "/fake ADD: ")...)
			if out != nil {
				t.Errorf("output beside the error: %q", out)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
	for _, verb := range []cni.Verb{cni.VerbDel, cni.VerbCheck, cni.VerbGC, cni.VerbStatus} {
		if _, err := run(t, verb, "echo anything"); err != nil {
			t.Errorf("%s has no result that could be wrong: %v", verb, err)
		}
	}
}

func checkError(t *testing.T, err error, code cni.Code, parts ...string) {
	t.Helper()
	e, ok := errors.AsType[*cni.Error](err)
	if !ok {
		t.Fatalf("error %v is no cni.Error", err)
	}
	if e.Code != code || e.Plugin != "fake" || e.Verb == "" {
		t.Errorf("code %d, plugin %q, verb %q; want code %d and both names", e.Code, e.Plugin, e.Verb, code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error()+e.Hint, part) {
			t.Errorf("error lacks %q:\n%v", part, err)
		}
	}
}

// TestB023ErrorObject: one that stands in the output of a plugin that failed is found, wherever.
func TestB023ErrorObject(t *testing.T) {
	object := `{"cniVersion":"1.1.0","code":11,"msg":"no address","details":"pool is full"}`
	for name, body := range map[string]string{
		"alone":             "echo '" + object + "'; exit 1",
		"pretty":            `printf '{\n  "code": 11,\n  "msg": "no address",\n  "details": "pool is full"\n}\n'; exit 1`,
		"after-a-log":       "echo 'level=info {x}'; echo '" + object + "'; exit 1",
		"before-a-log":      "echo '" + object + "'; echo bye; exit 1",
		"after-a-result":    "echo '" + result + object + "'; exit 1",
		"after-json-logs":   `echo '{"level":"info","msg":""}'; echo '` + object + "'; exit 3",
		"after-broken-json": "echo '{\"level\": '; echo '" + object + "'; exit 1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, cni.VerbDel, body)
			checkError(t, err, 11, "no address", "pool is full")
		})
	}
	_, err := run(t, cni.VerbAdd, `echo '{"code":0,"msg":"odd"}'; echo tail >&2; exit 1`)
	checkError(t, err, cni.CodeInternal, "odd", "stderr: tail")
}

// TestB024NoErrorObject: what can be said of a plugin that just died.
func TestB024NoErrorObject(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       []string
	}{
		{"stderr-only", "echo 'panic: runtime error' >&2; exit 2", []string{"exit status 2", "no error object", "stderr: panic: runtime error"}},
		{"silent", "exit 7", []string{"exit status 7", "stdout empty"}},
		{"killed", "kill -9 $$", []string{"killed by signal 9 (out of memory?)"}},
		{"segfault", "kill -SEGV $$", []string{"killed by signal 11 (segmentation fault)"}},
		{"long-stderr", "i=0; while [ $i -lt 2000 ]; do echo line-$i; i=$((i+1)); done >&2; exit 1", []string{"stderr: …", "line-1999"}},
		{"result-but-failed", "echo '" + result + "'; exit 1", []string{"exit status 1", "10.1.0.5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := run(t, cni.VerbAdd, tc.body)
			checkError(t, err, cni.CodeInternal, append(tc.want, "/fake ADD: ")...)
			if len(err.Error()) > 6<<10 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestB026Hangs: the plugin and what it started are gone when the context has ended.
func TestB026Hangs(t *testing.T) {
	for name, body := range map[string]string{
		"sleeps":       "echo $$ > %[1]s; exec sleep 1000",
		"has-children": "sleep 1000 & echo $! > %[1]s; wait",
		"ignores-term": "trap '' TERM; sleep 1000 & echo $! > %[1]s; wait; wait; wait",
		"child-stays":  "trap 'exit 0' TERM; (trap '' TERM; exec sleep 1000) & echo $! > %[1]s; wait",
		"stopped":      "echo $$ > %[1]s; kill -STOP $$",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pidFile := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				awaitFile(t, pidFile)
				cancel(context.DeadlineExceeded)
			}()
			_, err := pluginexec.Run(ctx, pluginexec.Command{
				Path: script(t, fmt.Sprintf(body, pidFile)), Verb: cni.VerbAdd, Env: os.Environ(), Grace: 100 * time.Millisecond,
			})
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, context.Canceled) {
				t.Errorf("error %v doesn't match the context's", err)
			}
			checkError(t, err, cni.CodeTryAgain, "stopped before it answered")
			pid, err := strconv.Atoi(strings.TrimSpace(awaitFile(t, pidFile)))
			if err != nil {
				t.Fatal(err)
			}
			awaitGone(t, pid)
		})
	}
}

// TestB026InheritedPipe: a child that keeps standard output open delays the answer by the time allowed for that, no more.
func TestB026InheritedPipe(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	out, err := run(t, cni.VerbAdd, "sleep 1000 & echo $! > "+pidFile+"; echo '"+result+"'")
	if err != nil || string(out) != result {
		t.Errorf("out %s, %v", out, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(awaitFile(t, pidFile)))
	if err != nil {
		t.Fatal(err)
	}
	// What a plugin leaves running when it succeeds is its own business: daemons are started so.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the child was ended: %v", err)
	}
}

// awaitFile waits until the file has a line and returns it.
func awaitFile(t *testing.T, path string) string {
	t.Helper()
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		if data, err := os.ReadFile(path); err == nil && bytes.HasSuffix(data, []byte("\n")) {
			return string(data)
		}
		if t.Context().Err() != nil {
			t.Errorf("%s never came", path)
			return ""
		}
	}
}

// awaitGone waits until a process has ended: a killed one takes its time, and init reaps it.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for tick, late := time.NewTicker(5*time.Millisecond), time.After(10*time.Second); ; {
		if gone(pid) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Errorf("process %d still runs", pid)
			return
		}
	}
}

func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z ")) // nobody reaps it here
}

// TestB029Busy: a program that is still being written is tried again, by every verb, until it is written or the context ends.
func TestB029Busy(t *testing.T) {
	for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel} {
		path := copyOf(t, "/bin/true")
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(50*time.Millisecond, func() { w.Close() })
		_, err = pluginexec.Run(t.Context(), pluginexec.Command{Path: path, Verb: verb, Env: os.Environ()})
		if verb == cni.VerbAdd {
			checkError(t, err, cni.CodeDecode, "nothing on standard output") // it ran
		} else if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		if timer.Stop() {
			t.Errorf("%s of a busy program didn't wait", verb)
			w.Close()
		}
	}
	path := copyOf(t, "/bin/true")
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = pluginexec.Run(ctx, pluginexec.Command{Path: path, Verb: cni.VerbDel, Env: os.Environ()})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v doesn't match the context's", err)
	}
	checkError(t, err, cni.CodeTryAgain, "text file busy")
}

func copyOf(t *testing.T, program string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "fake")
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestB029Incomplete and B030: a program that the kernel doesn't start.
func TestB029Incomplete(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		want          []string
	}{
		{"empty", "", []string{"incomplete or of the wrong architecture"}},
		{"half-an-elf", "\x7fELF\x02\x01\x01", []string{"incomplete or of the wrong architecture"}},
		{"bad-shebang", "#!/no/such/interpreter -x\n", []string{`interpreter "/no/such/interpreter -x" is missing`}},
		{"no-loader", elfWithLoader("/no/such/ld.so"), []string{"loader (dynamic linker)", "statically linked"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fake")
			if err := os.WriteFile(path, []byte(tc.content), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := pluginexec.Run(t.Context(), pluginexec.Command{Path: path, Verb: cni.VerbAdd, Env: os.Environ()})
			checkError(t, err, cni.CodeInvalidEnvironment, append(tc.want, path, "not started")...)
		})
	}
	_, err := pluginexec.Run(t.Context(), pluginexec.Command{Path: filepath.Join(t.TempDir(), "fake"), Verb: cni.VerbAdd})
	checkError(t, err, cni.CodeInvalidEnvironment, "the program is gone")
}

// elfWithLoader is the least that Linux takes for a dynamically linked program of this machine: a header and PT_INTERP.
func elfWithLoader(loader string) string {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil || len(self) < 64 {
		return "#!/no/such/loader (dynamic linker), statically linked\n"
	}
	head := bytes.Clone(self[:64])
	copy(head[32:40], []byte{64, 0, 0, 0, 0, 0, 0, 0}) // e_phoff
	copy(head[56:58], []byte{1, 0})                    // e_phnum
	ph := make([]byte, 56)
	size := byte(len(loader) + 1)
	copy(ph, []byte{3, 0, 0, 0, 4, 0, 0, 0, 120}) // PT_INTERP, readable, at 120
	ph[32], ph[40] = size, size
	return string(head) + string(ph) + loader + "\x00"
}

// TestContextThatHasEnded: nothing is started.
func TestContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	started := filepath.Join(t.TempDir(), "started")
	_, err := pluginexec.Run(ctx, pluginexec.Command{Path: script(t, "touch "+started), Verb: cni.VerbDel, Env: os.Environ()})
	checkError(t, err, cni.CodeTryAgain, "not started")
	if _, err := os.Stat(started); err == nil {
		t.Error("it was started")
	}
}

// TestPluginThatReadsNothing and whose configuration is larger than a pipe.
func TestPluginThatReadsNothing(t *testing.T) {
	_, err := pluginexec.Run(t.Context(), pluginexec.Command{Path: script(t, "exit 0"), Verb: cni.VerbDel, Env: os.Environ(), Stdin: make([]byte, 1<<20)})
	if err != nil {
		t.Error(err)
	}
}
