//go:build amd64 || arm64

package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// way is how a program is disturbed at a point. From deaf on they need one that sends to the kernel.
type way int

const (
	watch        way = iota // not at all
	killBefore              // the process is killed before the call
	killAfter               // and after it
	killAll                 // all processes are killed before the call
	killAllLate             // and after it
	killRoot                // the process that was started is killed before the call, its children go on
	fail                    // the call returns an error and does not happen
	hang                    // the call does not happen, lasts for hold, and is interrupted
	stall                   // the call happens after hold
	deaf                    // the call happens, and the next that reads a socket fails: no answer
	refuseFirst             // the kernel refuses the first of the netlink messages that the call sends
	refuseMiddle            // one in the middle
	refuseLast              // and the last
)

// fault is a way with its error.
type fault struct {
	name  string
	way   way
	errno unix.Errno
}

// outcome is how a traced program ended.
type outcome struct {
	status unix.WaitStatus // of the process that was started
	stdout string
	stderr string
	points []string // all of the run
	at     string   // the point that was disturbed; "" if there was none of the number
	hung   bool     // it had to be killed after limit
}

func (o outcome) ok() bool     { return o.status.Exited() && o.status.ExitStatus() == 0 && !o.hung }
func (o outcome) killed() bool { return o.status.Signaled() }

// command is a program to run.
type command struct {
	path string
	args []string // without the name
	env  []string
}

// search is how the points are found.
type search bool

const (
	filtered  search = false // the kernel stops the program at calls that may be points
	everyCall search = true  // it stops at every call, which is slow and misses none
)

// The results of calls that the kernel begins again by itself (linux/errno.h), which no program sees.
const (
	restartSys   = 512
	restartBlock = 516
)

// limit bounds a traced program.
const limit = 60 * time.Second

// disturbance is what a traced program meets at its nth point.
type disturbance struct {
	n      int // from 1; 0 is never
	fault  fault
	hold   time.Duration // of hang and stall
	search search
}

// tracer follows a program and all that it starts. It belongs to the thread that made it.
type tracer struct {
	disturbance
	root    int
	points  []string
	hit     string
	inside  map[int]uint64     // threads in a call whose end matters, and its number
	failing map[int]unix.Errno // threads in a call that is to fail
	deaf    bool               // the next call that reads a socket is to fail
	refused uint32             // the number of the netlink message that was spoilt; 0 is none
	dying   map[int]way        // threads to be killed after their call
	seen    map[int]bool
	again   map[int]uint64 // threads whose call the kernel begins once more: some settings do, hundreds of times, while links change
	held    int            // the thread that hangs; 0 is none
	until   time.Time      // then
	stops   chan os.Signal // SIGCHLD: something has stopped or ended
	reading map[int]uint64 // threads that read a socket, and where to
	paths   map[uint64]call
	sends   map[uint64]string

	programs map[int]string // that threads run
}

// trace runs a program to its end, disturbed. The calling goroutine must be locked to its thread.
func trace(cmd command, d disturbance) (outcome, error) {
	var o outcome
	out, err := collect()
	if err != nil {
		return o, err
	}
	errs, err := collect()
	if err != nil {
		return o, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return o, err
	}
	defer null.Close()
	p, err := os.StartProcess(cmd.path, append([]string{cmd.path}, cmd.args...), &os.ProcAttr{
		Env: cmd.env, Files: []*os.File{null, out.w, errs.w}, Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	out.w.Close()
	errs.w.Close()
	if err != nil {
		return o, err
	}
	t := &tracer{
		disturbance: d, root: p.Pid, inside: map[int]uint64{}, failing: map[int]unix.Errno{}, dying: map[int]way{}, seen: map[int]bool{},
		reading: map[int]uint64{}, again: map[int]uint64{}, stops: make(chan os.Signal, 1),
		paths: pathCalls(), sends: sendCalls(), programs: map[int]string{},
	}
	signal.Notify(t.stops, unix.SIGCHLD)
	defer signal.Stop(t.stops)
	overdue := make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		close(overdue)
		_ = unix.Kill(-t.root, unix.SIGKILL) // it has ended by itself at last
	})
	o.status, err = t.follow()
	timer.Stop()
	_ = p.Release() // it is reaped
	select {
	case <-overdue:
		o.hung = true
	default:
	}
	o.points, o.at = t.points, t.hit
	o.stdout, o.stderr = out.text(), errs.text()
	return o, err
}

// pipe gathers what a program prints.
type pipe struct {
	w    *os.File
	buf  bytes.Buffer
	done sync.WaitGroup
}

func collect() (*pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &pipe{w: w}
	p.done.Go(func() {
		defer r.Close()
		_, _ = io.Copy(&p.buf, r) // what was read before an error is shown
	})
	return p, nil
}

func (p *pipe) text() string {
	p.done.Wait()
	return p.buf.String()
}

// follow serves the stops of all threads until none is left, and returns how the first process ended.
func (t *tracer) follow() (unix.WaitStatus, error) {
	var rootStatus, ws unix.WaitStatus
	if _, err := unix.Wait4(t.root, &ws, unix.WALL, nil); err != nil {
		return 0, fmt.Errorf("wait for the start: %w", err)
	}
	if !ws.Stopped() {
		return ws, errors.New("the program is not traced")
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC |
		unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(t.root, options); err != nil {
		return 0, fmt.Errorf("trace: %w", err)
	}
	if t.search == filtered {
		if err := install(t.root, interesting(t.fault.way >= deaf)); err != nil {
			return 0, err
		}
	}
	t.seen[t.root] = true
	t.resume(t.root, 0)
	for {
		tid, err := t.wait(&ws)
		switch {
		case errors.Is(err, unix.ECHILD):
			return rootStatus, nil
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		}
		switch {
		case tid == 0:
		case ws.Exited() || ws.Signaled():
			if tid == t.root {
				rootStatus = ws
			}
			t.gone(tid)
		case ws.Stopped():
			if err := t.stopped(tid, ws); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: killed meanwhile
				return 0, err
			}
		}
		t.release()
	}
}

// wait waits for a thread to stop or end; 0 is none, since the time of the held one is over.
func (t *tracer) wait(ws *unix.WaitStatus) (int, error) {
	for {
		how := unix.WALL | unix.WNOTHREAD
		if t.held != 0 {
			how |= unix.WNOHANG
		}
		tid, err := unix.Wait4(-1, ws, how, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case tid != 0 || err != nil:
			return tid, err
		}
		timer := time.NewTimer(time.Until(t.until))
		select {
		case <-t.stops:
			timer.Stop()
		case <-timer.C:
			return 0, nil
		}
	}
}

func (t *tracer) gone(tid int) {
	delete(t.seen, tid)
	delete(t.inside, tid)
	delete(t.programs, tid)
	if t.held == tid {
		t.held = 0
	}
}

// stopped serves one stop.
func (t *tracer) stopped(tid int, ws unix.WaitStatus) error {
	first := !t.seen[tid]
	t.seen[tid] = true
	switch sig := ws.StopSignal(); {
	case sig == unix.SIGTRAP|0x80 || sig == unix.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		return t.atCall(tid)
	case sig == unix.SIGTRAP && ws.TrapCause() > 0:
		if ws.TrapCause() == unix.PTRACE_EVENT_EXEC {
			delete(t.programs, tid)
		}
		t.resume(tid, 0)
	case sig == unix.SIGSTOP && first: // how a new thread is announced
		t.resume(tid, 0)
	default:
		t.resume(tid, int(sig))
	}
	return nil
}

// resume lets a thread go on to the end of its call if that matters, else to the next call. One that was killed is no concern.
func (t *tracer) resume(tid, sig int) {
	if _, ok := t.inside[tid]; ok || t.search == everyCall {
		_ = unix.PtraceSyscall(tid, sig)
		return
	}
	_ = unix.PtraceCont(tid, sig)
}

// atCall serves a stop before or after a system call.
func (t *tracer) atCall(tid int) error {
	info, err := callInfo(tid)
	if err != nil {
		return err
	}
	if info.Op == unix.PTRACE_SYSCALL_INFO_EXIT {
		return t.afterCall(tid, int64(info.Nr))
	}
	nr, again := t.again[tid]
	delete(t.again, tid)
	if again && nr == info.Nr {
		t.inside[tid] = nr
		t.resume(tid, 0)
		return nil
	}
	what := t.pointOf(tid, info)
	if what == "" {
		err := t.beforeReading(tid, info)
		t.resume(tid, 0)
		return err
	}
	if t.mayRestart(info.Nr) {
		t.inside[tid] = info.Nr
	}
	program := t.program(tid)
	t.points = append(t.points, program+": "+what)
	if len(t.points) != t.n || t.fault.way == watch {
		t.resume(tid, 0)
		return nil
	}
	t.inside[tid] = info.Nr
	switch {
	case t.fault.way >= deaf && !strings.HasSuffix(what, " socket"):
		t.resume(tid, 0) // the program took another way this time
		return nil
	case t.fault.way >= fail && strings.HasSuffix(program, "tables-save"):
		t.resume(tid, 0) // it succeeds with half of the rules left out, and nobody can tell
		return nil
	case t.fault.way >= fail && asksRevision(tid, info):
		t.resume(tid, 0) // it takes the kernel for an old one, and writes a rule that it does not find again when the kernel is new
		return nil
	}
	t.hit = program + ": " + what
	return t.disturb(tid, info)
}

// disturb does at the point, before the call, what the fault says.
func (t *tracer) disturb(tid int, info syscallInfo) error {
	switch t.fault.way {
	case killBefore, killAll, killRoot:
		t.kill(tid, t.fault.way)
	case killAfter, killAllLate:
		t.dying[tid] = t.fault.way
	case fail:
		if err := skipCall(tid); err != nil {
			return err
		}
		t.failing[tid] = t.fault.errno
	case hang, stall:
		t.held, t.until = tid, time.Now().Add(t.hold)
		return nil
	case deaf:
		t.deaf = true
	case refuseFirst, refuseMiddle, refuseLast:
		if err := t.spoil(tid, info); err != nil {
			return err
		}
	}
	t.resume(tid, 0)
	return nil
}

// kill ends processes. One that has ended already is as good.
func (t *tracer) kill(tid int, how way) {
	switch how {
	case killBefore, killAfter:
		_ = unix.Kill(tid, unix.SIGKILL)
	case killRoot:
		_ = unix.Kill(t.root, unix.SIGKILL)
	default:
		for other := range t.seen {
			_ = unix.Kill(other, unix.SIGKILL)
		}
	}
}

// release lets the held thread go on when its time is over.
func (t *tracer) release() {
	if t.held == 0 || time.Now().Before(t.until) {
		return
	}
	tid := t.held
	t.held = 0
	if t.fault.way == hang {
		if skipCall(tid) == nil {
			t.failing[tid] = t.fault.errno
		}
	}
	t.resume(tid, 0)
}

func (t *tracer) afterCall(tid int, result int64) error {
	nr, inside := t.inside[tid]
	delete(t.inside, tid)
	if how, ok := t.dying[tid]; ok {
		t.kill(tid, how)
		delete(t.dying, tid)
	}
	if errno, ok := t.failing[tid]; ok {
		delete(t.failing, tid)
		if err := setResult(tid, errno); err != nil {
			return err
		}
	}
	if inside && result <= -restartSys && result >= -restartBlock {
		t.again[tid] = nr
	}
	if at, ok := t.reading[tid]; ok {
		delete(t.reading, tid)
		if err := t.answer(tid, at, result); err != nil {
			return err
		}
	}
	t.resume(tid, 0)
	return nil
}

func callInfo(tid int) (syscallInfo, error) {
	var info syscallInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return info, errno
	}
	return info, nil
}

// mayRestart reports whether the kernel may begin a call of this number once more. Others need no look at their end.
func (t *tracer) mayRestart(nr uint64) bool {
	_, sends := t.sends[nr]
	return sends || nr == unix.SYS_FLOCK
}

// program is programOf, which is asked once for each thread and program.
func (t *tracer) program(tid int) string {
	if t.programs[tid] == "" {
		t.programs[tid] = programOf(tid)
	}
	return t.programs[tid]
}

// programOf is the name of the program that a thread runs.
func programOf(tid int) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", tid))
	if err != nil {
		return "?"
	}
	if name := filepath.Base(path); !strings.HasPrefix(name, "xtables-") {
		return name
	}
	// One file is all of iptables; it is as it is called.
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", tid))
	if err != nil {
		return "?"
	}
	name, _, _ := strings.Cut(string(args), "\x00")
	return filepath.Base(name)
}
