package pluginexec

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieTogether has the kernel kill the plugin when this process is killed: else it would go on and make what a DEL
// that comes meanwhile no longer finds. The kernel takes the thread that started the plugin for its parent, so that
// thread has to live as long; see [holdThread].
func dieTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// holdThread keeps the calling goroutine's thread from being used, and ended, by another until release.
func holdThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
