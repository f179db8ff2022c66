package reliability

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// The bodies of shell scripts that are plugins. $CNI_COMMAND is the verb.
const (
	answers     = `cat >/dev/null; [ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.1.0","ips":[{"address":"10.99.0.250/24"}]}'`
	hangs       = `exec sleep 1000`
	ignoresTERM = `trap '' TERM INT HUP; while :; do sleep 1000; done`
	hasChildren = `(sleep 1000; sleep 1000) & (trap '' TERM; sleep 1000) & wait`
	holdsPipe   = `(trap '' TERM; exec sleep 1000) & exit 1`
	writesOut   = `exec yes`
	writesErr   = `exec yes >&2`
	stops       = `kill -STOP $$`
)

// script makes a program of a plugin's folder.
func (m *machine) script(typ, body string) {
	m.Helper()
	// By a rename, as programs have to be replaced.
	file := m.path("bin", "."+typ)
	m.must(os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	m.must(os.Rename(file, m.path("bin", typ)))
}

// running lists the processes that are plugins of this machine or were started by one: all have its folder in CNI_PATH.
func (m *machine) running() []string {
	m.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	m.must(err)
	var list []string
	for _, path := range paths {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte("CNI_PATH="+m.path("bin")+"\x00")) {
			continue
		}
		pid := filepath.Base(filepath.Dir(path))
		line, _ := os.ReadFile("/proc/" + pid + "/cmdline") // it may have ended
		list = append(list, pid+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return list
}

// gone waits until no plugin runs any more: what was killed is reaped by others, and takes its time.
func (m *machine) gone() {
	m.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		left := m.running()
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			m.Errorf("still running: %q", left)
			for _, l := range left {
				pid, _, _ := strings.Cut(l, " ")
				if n, err := strconv.Atoi(pid); err == nil {
					if p, err := os.FindProcess(n); err == nil {
						_ = p.Kill() // it may have ended
					}
				}
			}
			return
		}
	}
}

// begun is the file that a plugin makes when it has begun.
func (m *machine) begun() string { return m.path("ns", "begun") }

// interrupted does something under a context whose deadline passes, if it is to, when a plugin has begun. It returns how long that
// took from there on.
func (m *machine) interrupted(late bool, do func(context.Context) error) (took time.Duration, err error) {
	m.Helper()
	ctx, cancel := context.WithCancelCause(m.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	m.await("the plugin begins", func() bool {
		_, err := os.Stat(m.begun())
		return err == nil
	})
	deadline := time.Now()
	if late {
		cancel(context.DeadlineExceeded)
	}
	err = <-ended
	return time.Since(deadline), err
}

// TestHangingPlugins has a plugin of another maker behind the built-in ones, which does not do what it should. The ADD ends soon after its
// deadline and names the plugin, nothing of it runs on, and nothing is left: undoing has a time of its own, in which the
// built-in plugins get theirs, also if the DEL of the other hangs as well.
func TestHangingPlugins(t *testing.T) {
	const undo = 2 * time.Second
	// From a deadline to the end of a plugin that ignores TERM pass two seconds, and one that hangs does so in ADD and in DEL.
	const most = undo + 2*2*time.Second + 5*time.Second
	for _, tc := range []struct {
		name, add, del string
		late           bool // the deadline is what ends it
	}{
		{"hangs", hangs, answers, true},
		{"ignores-term", ignoresTERM, answers, true},
		{"has-children", hasChildren, answers, true},
		{"fails-while-a-child-holds-the-pipe", holdsPipe, answers, true},
		{"writes-for-ever", writesOut, answers, false},
		{"writes-errors-for-ever", writesErr, answers, true},
		{"stops", stops, answers, true},
		{"hangs-in-del-too", hangs, ignoresTERM, true},
		{"del-fails-too", hangs, "exit 1", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.script("wild", fmt.Sprintf("if [ $CNI_CONTAINERID = %s ]; then case $CNI_COMMAND in\nADD) touch %s; %s;;\nDEL) %s;;\nesac\nfi\n%s",
				subject, m.begun(), tc.add, tc.del, answers))
			s := m.open(undo)
			list := m.list(m.bridge(), portmap(), map[string]any{"type": "wild"})
			m.newPod(bystander)
			m.newPod(subject)
			_, err := s.AddNetworkList(t.Context(), list, m.attachment(bystander, 8001))
			m.must(err)
			clean := m.dump()

			took, err := m.interrupted(tc.late, func(ctx context.Context) error {
				_, err := s.AddNetworkList(ctx, list, m.attachment(subject, 8002))
				return err
			})
			if err == nil || !strings.Contains(err.Error(), "wild") || errors.Is(err, context.DeadlineExceeded) != tc.late {
				t.Errorf("ADD: %v", err)
			}
			if took > most {
				t.Errorf("ADD took %v after its deadline", took)
			}
			m.gone()
			if tc.del != answers { // undone but for that plugin, and the intent says so
				all, err := s.Attachments(t.Context())
				m.must(err)
				if len(all) != 2 || all[1].State != libcni.StateBroken {
					t.Errorf("attachments: %+v", all)
				}
				m.script("wild", answers)
				m.must(s.DelNetworkList(t.Context(), list, m.attachment(subject, 0)))
			}
			m.same("after the ADD that failed", clean)
		})
	}
}

// TestHangingDel: the DEL of a plugin that hangs ends with the deadline, the record stays, and the next DEL goes on.
func TestHangingDel(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.script("wild", answers)
	s, list := m.open(0), m.list(m.bridge(), portmap(), map[string]any{"type": "wild"})
	clean := m.settle(s, list)
	m.newPod(subject)
	_, err := s.AddNetworkList(t.Context(), list, m.attachment(subject, 8002))
	m.must(err)
	attached := m.dump()

	m.script("wild", "touch "+m.begun()+"; "+hasChildren)
	_, err = m.interrupted(true, func(ctx context.Context) error { return s.DelNetworkList(ctx, list, m.attachment(subject, 0)) })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wild") {
		t.Errorf("DEL: %v", err)
	}
	m.gone()
	m.same("after the DEL that hung", attached)
	m.script("wild", answers)
	m.must(s.DelNetworkList(t.Context(), list, m.attachment(subject, 0)))
	m.same("after DEL", clean)
}

// TestHangingIPAM: an IPAM plugin of another maker that hangs is ended with the deadline, and its own DEL frees what it may have
// taken.
func TestHangingIPAM(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.open(2 * time.Second)
	bridge := m.bridge()
	bridge["ipam"] = map[string]any{"type": "wild-ipam"}
	taken := m.path("taken")
	m.script("wild-ipam", fmt.Sprintf("case $CNI_COMMAND in\nADD) touch %[1]s %[2]s; %[3]s;;\nDEL) rm -f %[1]s;;\nesac",
		taken, m.begun(), ignoresTERM))
	m.newPod(subject)
	list := m.list(bridge)
	_, err := m.interrupted(true, func(ctx context.Context) error {
		_, err := s.AddNetworkList(ctx, list, m.attachment(subject, 0))
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wild-ipam") {
		t.Errorf("ADD: %v", err)
	}
	m.gone()
	if _, err := os.Stat(taken); err == nil {
		t.Error("the IPAM plugin got no DEL")
	}
	if left := m.files(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestLockHeld has another process hold a lock. While it lives, waiting ends with the deadline, and the error names the lock
// and the holder; when it is dead the lock is free.
func TestLockHeld(t *testing.T) {
	for _, tc := range []struct {
		name, lock string
		verbs      []string
	}{
		// a9 is the first byte of the SHA-256 sum of the container ID.
		{"operation", "lock/operation-a9.lock", []string{verbAdd, verbDel, verbCheck, verbGC, verbCollect}},
		{"leases", "data/net/lock", []string{verbAdd, verbDel, verbGC, verbCollect}},
	} {
		for _, verb := range tc.verbs {
			t.Run(tc.name+"-"+verb, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				s, plugins := m.open(0), []map[string]any{m.bridge(), portmap()}
				list := m.list(plugins...)
				clean := m.settle(s, list)
				if verb != verbAdd {
					_, err := s.AddNetworkList(t.Context(), list, m.attachment(subject, 8002))
					m.must(err)
				}
				if verb == verbGC || verb == verbCollect {
					m.newPod(subject) // the one that was attached is gone
				}
				pid, release := hold(t, m.path(tc.lock))
				j := job{Verb: verb, On: m.wiring, Conf: conf(plugins...), ID: subject, Port: 8002,
					GCArgs: libcni.GCArgs{ValidAttachments: []cni.Attachment{{ContainerID: bystander, IfName: "eth0"}}}}
				// The deadline passes when it waits.
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan answer)
				go func() { ended <- j.under(ctx, s) }()
				m.await("somebody waits", func() bool { return m.waitedFor(tc.lock) })
				cancel(context.DeadlineExceeded)
				a := <-ended
				for _, part := range []string{"deadline exceeded", "lock " + m.path(tc.lock), fmt.Sprintf("held by pid %d (", pid)} {
					if !strings.Contains(a.Err, part) {
						t.Errorf("error %q lacks %q", a.Err, part)
					}
				}
				if a.Code != cni.CodeTryAgain {
					t.Errorf("error %q has code %d", a.Err, a.Code)
				}
				// It waits when the holder dies, and goes on.
				go func() { ended <- j.do(s) }()
				release()
				if a := <-ended; !a.done() {
					t.Errorf("after the holder's death: %s", a.Err)
				}
				if verb == verbAdd || verb == verbCheck {
					m.must(s.DelNetworkList(t.Context(), list, m.attachment(subject, 0)))
				}
				m.same("in the end", clean)
			})
		}
	}
}

// waitedFor reports whether the kernel shows somebody who waits for the lock on a file of the machine.
func (m *machine) waitedFor(file string) bool {
	m.Helper()
	var st unix.Stat_t
	m.must(unix.Stat(m.path(file), &st))
	locks, err := os.ReadFile("/proc/locks")
	m.must(err)
	id := fmt.Sprintf(" %02x:%02x:%d ", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(locks)) {
		if strings.Contains(line, "->") && strings.Contains(line, id) {
			return true
		}
	}
	return false
}
