// Package spawn starts processes that outlive the agent, and knows them again after it was started anew.
//
// Such a process begins with a handshake over a socket, so that there is none that nobody knows: it says that it is ready (Await), the
// agent writes down who it is, and only then lets it go on (Child.Go). If the agent dies before, the socket ends, and
// the process with it.
package spawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Identity names one process for good: its number may be given to another, but not with the same start. It is written
// down in JSON.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since the boot, field 22 of /proc/<pid>/stat
}

// IsZero reports whether the identity names nobody.
func (i Identity) IsZero() bool { return i.PID == 0 }

// Identify returns the identity of a process that is there. If it isn't the error is os.ErrProcessDone.
func Identify(pid int) (Identity, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return Identity{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	if err != nil {
		return Identity{}, err
	}
	start, state, err := parseStat(stat)
	if err != nil {
		return Identity{}, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	if state == 'Z' || state == 'X' {
		return Identity{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	return Identity{PID: pid, Start: start}, nil
}

// parseStat reads the state and the start. The name before them is in parentheses and may hold anything.
func parseStat(stat []byte) (start uint64, state byte, err error) {
	const stateField, startField = 3, 22
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, 0, errors.New("no name")
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) <= startField-stateField {
		return 0, 0, fmt.Errorf("%d fields", len(fields))
	}
	start, err = strconv.ParseUint(string(fields[startField-stateField]), 10, 64)
	return start, fields[0][0], err
}

// Alive reports whether the process is there and has not ended.
func (i Identity) Alive() bool {
	if i.IsZero() {
		return false
	}
	now, err := Identify(i.PID)
	return err == nil && now == i
}

// open returns a descriptor of the process (pidfd, Linux 5.10 with PIDFD_NONBLOCK). If it has ended the error is
// os.ErrProcessDone.
func (i Identity) open() (*os.File, error) {
	done := fmt.Errorf("process %d: %w", i.PID, os.ErrProcessDone)
	if i.IsZero() {
		return nil, done
	}
	fd, err := unix.PidfdOpen(i.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, done
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", i.PID, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	// What the descriptor is of can't change any more: look whether it is the one that is meant.
	if !i.Alive() {
		f.Close()
		return nil, done
	}
	return f, nil
}

// Signal sends a signal. If the process has ended the error is os.ErrProcessDone; no other process is ever hit.
func (i Identity) Signal(sig unix.Signal) error {
	f, err := i.open()
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sent, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", i.PID, os.ErrProcessDone)
	}
	return sent
}

// Wait waits until the process has ended, also one that is not a child. It returns nil then, at once if it has already, and the
// context's error if that ends first.
func (i Identity) Wait(ctx context.Context) error {
	f, err := i.open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer stop()
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 && err == nil
	})
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	return err
}
