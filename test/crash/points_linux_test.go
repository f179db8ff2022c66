//go:build amd64 || arm64

package crash

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// syscallInfo is struct ptrace_syscall_info (linux/ptrace.h, Linux 5.3).
type syscallInfo struct {
	Op   uint8
	_    [3]uint8
	Arch uint32
	IP   uint64
	SP   uint64
	Nr   uint64 // at the exit: the result
	Args [6]uint64
	_    uint64
}

// opensToWrite are the flags of openat of which a point has one.
const opensToWrite = unix.O_CREAT | unix.O_WRONLY | unix.O_RDWR

// pathCalls are the system calls that are points whatever they are about, with the places of the paths among their arguments.
func pathCalls() map[uint64]call {
	return map[uint64]call{
		unix.SYS_MKDIRAT:   {"mkdirat", []int{1}},
		unix.SYS_UNLINKAT:  {"unlinkat", []int{1}},
		unix.SYS_LINKAT:    {"linkat", []int{1, 3}},
		unix.SYS_SYMLINKAT: {"symlinkat", []int{0, 2}},
		unix.SYS_RENAMEAT:  {"renameat", []int{1, 3}},
		unix.SYS_RENAMEAT2: {"renameat2", []int{1, 3}},
		unix.SYS_FCHMODAT:  {"fchmodat", []int{1}},
		unix.SYS_UTIMENSAT: {"utimensat", []int{1}},
		unix.SYS_FLOCK:     {"flock", nil},
		unix.SYS_FTRUNCATE: {"ftruncate", nil},
		unix.SYS_FALLOCATE: {"fallocate", nil},
		unix.SYS_FCHMOD:    {"fchmod", nil},
		unix.SYS_SETNS:     {"setns", nil},
		unix.SYS_UNSHARE:   {"unshare", nil},
		unix.SYS_MOUNT:     {"mount", []int{0, 1}},
		unix.SYS_UMOUNT2:   {"umount2", []int{0}},
		unix.SYS_EXECVE:    {"execve", []int{0}},
	}
}

type call struct {
	name  string
	paths []int
}

// sendCalls write to what a descriptor is open for: points if that is a socket or a file.
func sendCalls() map[uint64]string {
	return map[uint64]string{
		unix.SYS_SENDTO: "sendto", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg",
		unix.SYS_WRITE: "write", unix.SYS_WRITEV: "writev", unix.SYS_PWRITE64: "pwrite64", unix.SYS_PWRITEV: "pwritev",
	}
}

// pointOf says what a system call that tid is about to enter does; "" if it is no point.
func (t *tracer) pointOf(tid int, info syscallInfo) string {
	if info.Nr == unix.SYS_OPENAT {
		return openPoint(tid, info)
	}
	if c, ok := t.paths[info.Nr]; ok {
		return c.describe(tid, info)
	}
	name, ok := t.sends[info.Nr]
	if !ok {
		return ""
	}
	target := descriptor(tid, info.Args[0])
	switch {
	case strings.HasPrefix(target, "socket:"):
		return name + " socket"
	case !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "/dev/"):
		return "" // a pipe: what the program prints
	default:
		return name + " " + shorten(target)
	}
}

func (c call) describe(tid int, info syscallInfo) string {
	words := []string{c.name}
	switch {
	case info.Nr == unix.SYS_FLOCK && info.Args[1]&unix.LOCK_UN != 0:
		return "" // what a killed process holds is let go as well
	case len(c.paths) == 0:
		words = append(words, shorten(descriptor(tid, info.Args[0])))
	}
	for _, i := range c.paths {
		words = append(words, shorten(text(tid, info.Args[i])))
	}
	return strings.Join(words, " ")
}

// openPoint: a file is made, or a setting of the kernel is about to be written.
func openPoint(tid int, info syscallInfo) string {
	if info.Args[2]&opensToWrite == 0 {
		return ""
	}
	path := text(tid, info.Args[1])
	if strings.HasPrefix(path, "/dev/") {
		return ""
	}
	return "openat " + shorten(path)
}

func descriptor(tid int, fd uint64) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	if err != nil {
		return ""
	}
	return target
}

// text reads a string of the traced program.
func text(tid int, at uint64) string {
	buf := make([]byte, 512)
	n, err := unix.ProcessVMReadv(tid, []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}},
		[]unix.RemoteIovec{{Base: uintptr(at), Len: len(buf)}}, 0)
	if err != nil { // the end of the page comes first
		n, err = unix.PtracePeekData(tid, uintptr(at), buf[:256])
		if err != nil {
			return "?"
		}
	}
	s, _, _ := bytes.Cut(buf[:n], []byte{0})
	return string(s)
}

// shorten keeps the end of a path, which is the same in every world.
func shorten(path string) string {
	if strings.HasPrefix(path, "/proc/") {
		return path
	}
	parts := strings.Split(filepath.Clean(path), "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}
