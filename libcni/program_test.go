//go:build unix

package libcni_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

func ExampleProgram() {
	dir, err := os.MkdirTemp("", "libcni")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "example"), []byte("#!/bin/sh\necho \"$CNI_COMMAND of $(cat)\"\n"), 0o755); err != nil {
		fmt.Println(err)
		return
	}
	path, err := libcni.FindProgram("example", []string{dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := libcni.Program{
		Path: path, Stdin: []byte(`{"name": "pods"}`), Env: append(os.Environ(), "CNI_COMMAND=STATUS"),
	}.Run(context.Background())
	fmt.Printf("%s%v\n", out.Stdout, err)
	// Output:
	// STATUS of {"name": "pods"}
	// <nil>
}

func TestProgram(t *testing.T) {
	for _, tc := range []struct {
		name, body     string
		stdout, stderr string
		status         int
		wants          string
	}{
		{"nothing", "", "", "", 0, ""},
		{"input-and-environment", `cat; echo "$A:$CNI_COMMAND" >&2`, "{ }", "1:\n", 0, ""},
		{"no-json", "echo hello", "hello\n", "", 0, ""},
		{"fails", `echo '{"code":7,"msg":"x"}'; echo why >&2; exit 3`, "{\"code\":7,\"msg\":\"x\"}\n", "why\n", 3, "exit status 3"},
		{"killed", `kill -9 $$`, "", "", -1, "killed by signal 9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/p", "#!/bin/sh\n"+tc.body+"\n")
			if err := os.Chmod(dir+"/p", 0o700); err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			out, err := libcni.Program{Path: dir + "/p", Stdin: []byte("{ }"), Env: []string{"A=1", "PATH=" + os.Getenv("PATH")}, Stderr: &stderr}.Run(t.Context())
			if string(out.Stdout) != tc.stdout || string(out.Stderr) != tc.stderr || stderr.String() != tc.stderr {
				t.Errorf("stdout %q, stderr %q, copied %q", out.Stdout, out.Stderr, &stderr)
			}
			exit, failed := errors.AsType[*exec.ExitError](err)
			switch {
			case failed && exit.ExitCode() != tc.status, !failed && tc.status != 0:
				t.Errorf("error %v, want status %d", err, tc.status)
			case failed && (cni.CodeOf(err) != cni.CodeInternal || !strings.Contains(err.Error(), dir+"/p: "+tc.wants)):
				t.Errorf("error %v (code %d)", err, cni.CodeOf(err))
			case !failed && err != nil:
				t.Error(err)
			}
		})
	}
}

func TestProgramThatIsStopped(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/p", "#!/bin/sh\nexec sleep 1000\n")
	if err := os.Chmod(dir+"/p", 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (libcni.Program{Path: dir + "/p"}).Run(ctx); !errors.Is(err, context.DeadlineExceeded) || cni.CodeOf(err) != cni.CodeTryAgain {
		t.Errorf("error %v", err)
	}
	if _, err := (libcni.Program{Path: dir + "/gone"}).Run(t.Context()); !errors.Is(err, fs.ErrNotExist) || cni.CodeOf(err) != cni.CodeInvalidEnvironment {
		t.Errorf("error %v", err)
	}
	if _, err := libcni.FindProgram("gone", []string{dir}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if path, err := libcni.FindProgram("p", []string{"/nowhere", dir}); err != nil || path != dir+"/p" {
		t.Errorf("found %q, %v", path, err)
	}
}
