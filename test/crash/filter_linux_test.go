//go:build amd64 || arm64

package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The offsets of struct seccomp_data (linux/seccomp.h), on a machine whose low half of a word comes first.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

// room is how far below the stack pointer of a program that has just begun the filter is written; nothing is there yet.
const room = 4096

// interesting is the seccomp filter that stops a program at the calls that may be points, and lets all others go. The calls that
// read sockets are among them only if they matter.
func interesting(reading bool) []unix.SockFilter {
	trace, allow := instruction(unix.BPF_RET, unix.SECCOMP_RET_TRACE), instruction(unix.BPF_RET, unix.SECCOMP_RET_ALLOW)
	load := func(offset uint32) unix.SockFilter { return instruction(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
	list := []unix.SockFilter{
		load(offsetArch), jump(unix.BPF_JEQ, auditArch, 1, 0), allow,
		load(offsetNr),
		// Only a call that makes or writes is a point.
		jump(unix.BPF_JEQ, unix.SYS_OPENAT, 0, 4),
		load(offsetArgs + 2*8), jump(unix.BPF_JSET, opensToWrite, 0, 1), trace, allow,
		jump(unix.BPF_JEQ, unix.SYS_FLOCK, 0, 4),
		load(offsetArgs + 1*8), jump(unix.BPF_JSET, unix.LOCK_UN, 1, 0), trace, allow,
	}
	var calls []uint32
	for nr := range pathCalls() {
		if nr != unix.SYS_FLOCK {
			calls = append(calls, uint32(nr))
		}
	}
	for nr := range sendCalls() {
		calls = append(calls, uint32(nr))
	}
	if reading {
		calls = append(calls, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_READ)
	}
	slices.Sort(calls)
	for _, nr := range calls {
		list = append(list, jump(unix.BPF_JEQ, nr, 0, 1), trace)
	}
	return append(list, allow)
}

func instruction(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | how, K: k, Jt: yes, Jf: no}
}

// install puts a filter into a program that is stopped at its first instruction: the program itself makes the call, and then finds
// everything as it was. What it starts has the filter, too.
func install(tid int, filter []unix.SockFilter) error {
	regs, err := registersOf(tid)
	if err != nil {
		return err
	}
	at := (regs.stack() - room) &^ 15
	// struct sock_fprog: the number of instructions and where they are, which is behind it.
	raw := binary.NativeEndian.AppendUint64(nil, uint64(len(filter)))
	raw = binary.NativeEndian.AppendUint64(raw, at+16)
	for _, f := range filter {
		raw = binary.NativeEndian.AppendUint16(raw, f.Code)
		raw = append(raw, f.Jt, f.Jf)
		raw = binary.NativeEndian.AppendUint32(raw, f.K)
	}
	if len(raw) > room {
		return errors.New("the filter is too long")
	}
	if err := poke(tid, at, raw); err != nil {
		return fmt.Errorf("write the filter: %w", err)
	}
	result, err := callIn(tid, regs, [4]uint64{unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, at})
	if err == nil && result != 0 {
		err = unix.Errno(-result)
	}
	if err != nil {
		return fmt.Errorf("install the filter: %w", err)
	}
	return nil
}

// callIn has a stopped program make a system call, given by its number and three arguments, and puts registers and code back.
func callIn(tid int, before registers, call [4]uint64) (result int64, err error) {
	code, err := peek(tid, before.next(), len(callInstruction))
	if err != nil {
		return 0, err
	}
	if err := poke(tid, before.next(), []byte(callInstruction)); err != nil {
		return 0, err
	}
	during := before.calling(call)
	if err := during.set(tid); err != nil {
		return 0, err
	}
	if err := unix.PtraceSingleStep(tid); err != nil {
		return 0, err
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(tid, &ws, unix.WALL, nil); err != nil {
		return 0, err
	}
	if !ws.Stopped() || ws.StopSignal() != unix.SIGTRAP {
		return 0, fmt.Errorf("the call did not end: wait status %#x", uint32(ws))
	}
	after, err := registersOf(tid)
	if err != nil {
		return 0, err
	}
	return after.result(), errors.Join(poke(tid, before.next(), code), before.set(tid))
}

// TestFilterMissesNothing holds the points that the filter finds to those that are found at a stop at every call.
func TestFilterMissesNothing(t *testing.T) {
	w := crew(t, prepared(t))[0]
	number := regexp.MustCompile(`\d+`)
	points := func(t *testing.T, j job) string {
		a, err := w.do(j)
		if err != nil || len(a.Leaks) > 0 {
			t.Fatalf("%v: %v %s", j, err, a.Leaks)
		}
		slices.Sort(a.Points) // threads take turns as they like
		return number.ReplaceAllString(strings.Join(a.Points, "\n"), "0")
	}
	for _, f := range []form{builtIn, execd} {
		for _, verb := range []string{verbAdd, verbDel} {
			t.Run(string(f)+"-"+verb, func(t *testing.T) {
				j := job{Chain: "iptables", Form: f, Verb: verb, Follow: followDel}
				points(t, j) // what is done once is done
				got := points(t, j)
				j.Search = everyCall
				if diff := cmp.Diff(points(t, j), got); diff != "" {
					t.Errorf("points (-at every call +filtered):\n%s", diff)
				}
			})
		}
	}
}
