//go:build !unix

package pluginexec

import (
	"os"
	"os/exec"

	"github.com/cleat-cni/cleat/cni"
)

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// signalGroup ends the process; there is no gentle way.
func signalGroup(cmd *exec.Cmd, _ bool) {
	// The error says that it has ended, which is what is wanted.
	_ = cmd.Process.Kill()
}

func isBusy(error) bool { return false }

func describeExit(state *os.ProcessState) string { return state.String() }

func (c Command) startError(err error) error {
	e := c.errorf(cni.CodeInvalidEnvironment, "not started: %v", err)
	e.Err = err
	return e
}
