//go:build amd64 || arm64

package reliability

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchedCalls are the system calls that change files, on the architectures of this file.
func watchedCalls() map[uint32]string {
	return map[uint32]string{
		unix.SYS_OPENAT: "open", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "write", unix.SYS_FTRUNCATE: "truncate",
		unix.SYS_MKDIRAT: "mkdir", unix.SYS_LINKAT: "link", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename",
		unix.SYS_UNLINKAT: "unlink", unix.SYS_UTIMENSAT: "set time",
	}
}

// workWatched is the role watched: it does the job on its standard input with a seccomp filter that asks whoever has the filter's
// listener before each of the watched calls, from all threads. The first of them waits until there is somebody.
func workWatched() error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	s, err := j.On.open(0)
	if err != nil {
		return err
	}
	if err := askBefore(watchedCalls()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(j.do(s))
}

// askBefore installs the filter on all threads. The listener's descriptor stays open.
func askBefore(calls map[uint32]string) error {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number of the call
	for nr := range calls {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("watch file operations: %w", errno)
	}
	return nil
}

// notice and reply are struct seccomp_notif and seccomp_notif_resp (linux/seccomp.h).
type notice struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type reply struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// watch does a job in a process of its own, and calls before in front of each of its file operations.
func (m *machine) watch(j job, before func(call string)) answer {
	m.Helper()
	w := startAs(m, roleWatched)
	end := w.begin(j)
	listener := -1
	m.await("the listener", func() bool {
		var err error
		listener, err = listenerOf(w.cmd.Process.Pid)
		m.must(err)
		return listener >= 0
	})
	defer unix.Close(listener)
	m.must(serve(listener, func(n notice) { before(watchedCalls()[uint32(n.nr)]) }))
	a, err := end()
	m.must(err)
	return a
}

// listenerOf takes the listener of a process's filter; -1 if it has none yet.
func listenerOf(pid int) (int, error) {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return -1, err
	}
	for _, link := range links {
		what, err := os.Readlink(link)
		if err != nil || !strings.Contains(what, "seccomp notify") {
			continue
		}
		fd, err := strconv.Atoi(filepath.Base(link))
		if err != nil {
			return -1, err
		}
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return -1, err
		}
		defer unix.Close(process)
		return unix.PidfdGetfd(process, fd, 0)
	}
	return -1, nil
}

// serve lets one call after the other go on, until the process has ended.
func serve(listener int, before func(notice)) error {
	for {
		ready := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for a call: %w", err)
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			if ready[0].Revents != 0 {
				return nil
			}
			continue
		}
		var n notice
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n)))
		if errno == unix.ENOENT || errno == unix.EINTR {
			continue // a signal has called it off
		}
		if errno != 0 {
			return fmt.Errorf("receive a call: %w", errno)
		}
		before(n)
		r := reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
		if errno != 0 && errno != unix.ENOENT {
			return fmt.Errorf("let a call go on: %w", errno)
		}
	}
}
