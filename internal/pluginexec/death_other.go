//go:build !linux

package pluginexec

import "os/exec"

// dieTogether does nothing: a plugin outlives a killed runtime here.
func dieTogether(*exec.Cmd) {}

// holdThread does nothing.
func holdThread() (release func()) { return func() {} }
