//go:build unix

package pluginexec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/cleat-cni/cleat/cni"
)

// ownGroup makes the process the first of a process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup ends the process and all that it started and that stayed in its group.
func signalGroup(cmd *exec.Cmd, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	// The error says that nobody is left, which is what is wanted.
	_ = syscall.Kill(-cmd.Process.Pid, sig)
}

func isBusy(err error) bool { return errors.Is(err, syscall.ETXTBSY) }

func describeExit(state *os.ProcessState) string {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return state.String()
	}
	sig := status.Signal()
	if sig == syscall.SIGKILL {
		return "killed by signal 9 (out of memory?)"
	}
	return fmt.Sprintf("killed by signal %d (%v)", int(sig), sig)
}

// startError says why the kernel did not start the program.
func (c Command) startError(err error) error {
	what := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		what = errno.Error()
	}
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		what = "the program is incomplete or of the wrong architecture (exec format error)"
	case isBusy(err):
		what = "the program is still being written (text file busy)"
		hint = "install plugins by rename, not in place"
	case errors.Is(err, fs.ErrNotExist):
		what, hint = missingInterpreter(c.Path)
	case errors.Is(err, fs.ErrPermission):
		hint = "is the program executable for this user, and its file system not mounted noexec?"
	}
	e := c.errorf(cni.CodeInvalidEnvironment, "not started: %s", what)
	e.Err, e.Hint = err, hint
	return e
}

// missingInterpreter explains "no such file" for a program that is there: what it needs to run is
// missing.
func missingInterpreter(path string) (what, hint string) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "the program is gone", ""
	}
	what, hint = "its interpreter is missing", ""
	if err != nil {
		return what, hint
	}
	defer f.Close()
	var begin [128]byte
	n, _ := io.ReadFull(f, begin[:]) // a short file is an answer too
	line, _, _ := bytes.Cut(begin[:n], []byte("\n"))
	if script, ok := bytes.CutPrefix(line, []byte("#!")); ok {
		return fmt.Sprintf("its interpreter %q is missing", strings.TrimSpace(string(script))), ""
	}
	if bytes.HasPrefix(line, []byte("\x7fELF")) {
		return "its interpreter is missing: the loader (dynamic linker) it was linked for",
			"install the C library it needs, or a statically linked build of the plugin"
	}
	return what, hint
}
