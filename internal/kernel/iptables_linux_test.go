package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// kinds are the kinds of iptables' programs.
var kinds = []string{"legacy", "nft"}

func TestIptablesContract(t *testing.T) {
	sandbox.Require(t)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			kerneltest.Iptables(t, func(t *testing.T) kerneltest.Fixture {
				m := newMachine(t)
				dir := sandbox.Iptables(t, kind)
				f := newFixtureOf(t, m, kernel.Config{Programs: dir})
				f.Text = func(path string) string {
					text := m.text(path)
					if path == "" {
						text += m.iptables(dir)
					}
					return text
				}
				return f
			})
		})
	}
}

// iptables lists what iptables has, sorted, without counters.
func (m *machine) iptables(dir string) string {
	m.t.Helper()
	var lines []string
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		for line := range strings.Lines(string(m.run("", filepath.Join(dir, program)))) {
			if line[0] != '#' {
				line, _, _ = strings.Cut(line, " [")
				lines = append(lines, program+" "+strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// published is a state of one port of the host in iptables.
func published(id string, port int) netstate.State {
	owner := netstate.Owner{Network: "pods", ContainerID: id, IfName: "eth0"}
	name := fmt.Sprintf("CLEAT-tcp-%d", port)
	rule := func(chain, text string) netstate.IptablesRule {
		return netstate.IptablesRule{Family: "ip", Table: "nat", Chain: chain, Rule: text, Owner: owner}
	}
	return netstate.State{
		Owner: owner,
		IptablesChains: []netstate.IptablesChain{
			{Family: "ip", Table: "nat", Name: "CLEAT-HOSTPORTS"}, {Family: "ip", Table: "nat", Name: name, Owner: owner}},
		IptablesRules: []netstate.IptablesRule{
			{Family: "ip", Table: "nat", Chain: "PREROUTING", Rule: "-j CLEAT-HOSTPORTS"},
			rule("CLEAT-HOSTPORTS", fmt.Sprintf("-p tcp --dport %d -j %s", port, name)),
			rule(name, "-p tcp -j DNAT --to-destination 10.88.0.5:80")},
	}
}

// session opens a session on a machine's host, with programs out of dir.
func (m *machine) session(dir string) *kernel.Session {
	m.t.Helper()
	k, err := kernel.New(kernel.Config{Host: m.host, Programs: dir})
	if err != nil {
		m.t.Fatal(err)
	}
	s, err := k.Open(m.t.Context(), "", false)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		if err := errors.Join(s.Close(), k.Close()); err != nil {
			m.t.Error(err)
		}
	})
	return s
}

// TestB059IptablesLockHeld: a lock that somebody holds is waited for no longer than the context lasts, and the
// error names who holds it.
func TestB059IptablesLockHeld(t *testing.T) {
	m := newMachine(t)
	s := m.session(sandbox.Iptables(t, "legacy"))
	// The legacy programs make the file at their first call.
	if err := s.Apply(t.Context(), published("c1", 8001)); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile("/run/xtables.lock", os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	err = s.Apply(ctx, published("c2", 8002))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Errorf("Apply = %v, want %v and the holder, pid %d", err, context.DeadlineExceeded, os.Getpid())
	}
	if ctx.Err() != nil {
		t.Error("the whole of the context's time was used up")
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), published("c2", 8002)); err != nil {
		t.Errorf("when the lock is free: %v", err)
	}
}

// TestB058IptablesIncompatible: a table that nft made in a way which iptables can't show is not touched.
func TestB058IptablesIncompatible(t *testing.T) {
	m := newMachine(t)
	m.run("", "nft", "table ip nat { map to { type ipv4_addr : ipv4_addr; }; chain POSTROUTING { type nat hook postrouting priority 100; snat to ip saddr map @to; }; }")
	before := m.text("")
	err := m.session(sandbox.Iptables(t, "nft")).Apply(t.Context(), published("c1", 8001))
	if !errors.Is(err, netstate.ErrUnsupported) || !strings.Contains(err.Error(), "made by nft") {
		t.Errorf("Apply = %v, want %v and who made the table", err, netstate.ErrUnsupported)
	}
	if after := m.text(""); after != before {
		t.Errorf("the rules changed:\n%s", after)
	}
}

// TestB058IptablesMixture: an error says that there are tables of the other kind.
func TestB058IptablesMixture(t *testing.T) {
	m := newMachine(t)
	if err := m.session(sandbox.Iptables(t, "legacy")).Apply(t.Context(), published("c1", 8001)); err != nil {
		t.Fatal(err)
	}
	state := published("c2", 8002)
	state.IptablesRules[2].Rule = "-p tcp -j NO-SUCH-TARGET"
	err := m.session(sandbox.Iptables(t, "nft")).Apply(t.Context(), state)
	for _, word := range []string{"iptables-restore (nf_tables", "tables of iptables-legacy", "NO-SUCH-TARGET"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("Apply = %v, want an error with %q", err, word)
		}
	}
}

// TestIptablesWithoutPrograms: nothing of iptables is needed where nothing of it was asked for, nor where no table is.
func TestIptablesWithoutPrograms(t *testing.T) {
	m := newMachine(t)
	s := m.session(t.TempDir())
	if err := s.Apply(t.Context(), published("c1", 8001)); !errors.Is(err, netstate.ErrUnsupported) {
		t.Errorf("Apply = %v, want %v", err, netstate.ErrUnsupported)
	}
	if err := s.Remove(t.Context(), published("c1", 8001), true); err != nil {
		t.Errorf("Remove where no table is: %v", err)
	}
	k, err := kernel.New(kernel.Config{Host: m.host, Programs: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Supports(t.Context(), published("c1", 8001)); !errors.Is(err, netstate.ErrUnsupported) || !strings.Contains(err.Error(), "iptables-save is not installed") {
		t.Errorf("Supports = %v, want %v and the program", err, netstate.ErrUnsupported)
	}
	if got, err := k.Collect(t.Context(), "pods", nil, false); err != nil || len(got) > 0 {
		t.Errorf("Collect where no program is: %v, %v", got, err)
	}
}

// programs writes scripts that stand in for iptables-save and iptables-restore. Each call is noted in the file calls.
func programs(t *testing.T, save, restore string) (dir, calls string) {
	dir = t.TempDir()
	calls = filepath.Join(dir, "calls")
	for name, script := range map[string]string{"iptables-save": save, "iptables-restore": restore} {
		script = "#!/bin/sh\necho " + name + " >>" + calls + "\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, calls
}

// TestIptablesLostRace: a restore that fails is tried again if the tables changed meanwhile, and only then.
func TestIptablesLostRace(t *testing.T) {
	for _, tc := range []struct{ name, save, restore, want, calls string }{
		{"changed", `cat; test -e $0.done && echo "*nat
:CLEAT-HOSTPORTS - [0:0]
COMMIT"; exit 0`, `test -e ${0%restore}save.done && exit 0; touch ${0%restore}save.done; echo "iptables-restore: line 2 failed" >&2; exit 1`, "",
			"iptables-save iptables-restore iptables-save iptables-restore"},
		{"unchanged", "exit 0", `echo "iptables-restore: line 2 failed" >&2; exit 1`, "iptables-restore (legacy): -N CLEAT-HOSTPORTS",
			"iptables-save iptables-restore iptables-save"},
		{"no-rules", `echo "hello"`, "exit 0", `line 1: "hello": stands in no table`, "iptables-save"},
		{"save-fails", `echo "Fatal: can't open" >&2; exit 3`, "exit 0", "iptables-save: Fatal: can't open: exit status 3", "iptables-save"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			dir, calls := programs(t, tc.save, tc.restore)
			err := m.session(dir).Apply(t.Context(), published("c1", 8001))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("Apply = %v, want %q", err, tc.want)
			}
			data, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(string(data)), " "); got != tc.calls {
				t.Errorf("calls %q, want %q", got, tc.calls)
			}
		})
	}
}

// TestIptablesProcesses: kernels of their own, as in several processes, work on one host at once. Nothing doubles, nothing is
// lost, and a port that all want goes to one.
func TestIptablesProcesses(t *testing.T) {
	const n = 6
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			m := newMachine(t)
			dir := sandbox.Iptables(t, kind)
			sessions := make([]*kernel.Session, n)
			for i := range sessions {
				sessions[i] = m.session(dir)
			}
			own := func(i int) netstate.State { return published(fmt.Sprintf("c%d", i), 8001+i) }
			shared := func(i int) netstate.State { return published(fmt.Sprintf("s%d", i), 9000) }
			errs := make([]error, n)
			var wg sync.WaitGroup
			for i, s := range sessions {
				wg.Go(func() {
					if err := s.Apply(t.Context(), own(i)); err != nil {
						t.Errorf("apply %d: %v", i, err)
					}
					errs[i] = s.Apply(t.Context(), shared(i))
				})
			}
			wg.Wait()
			winners := 0
			for i, err := range errs {
				if err == nil {
					winners++
				} else if !errors.Is(err, netstate.ErrInUse) {
					t.Errorf("port of all, %d: %v", i, err)
				}
			}
			text := m.iptables(dir)
			if winners != 1 || strings.Count(text, ":CLEAT-tcp-9000 ") != 1 || strings.Count(text, "--dport 9000") != 1 {
				t.Errorf("%d of %d have the port\n%s", winners, n, text)
			}
			if strings.Count(text, "-j CLEAT-HOSTPORTS\n") != 1 {
				t.Errorf("the chain is not entered once\n%s", text)
			}
			for i, s := range sessions {
				if diffs, err := s.Diff(t.Context(), own(i)); err != nil || len(diffs) > 0 {
					t.Errorf("%d: %v, %v", i, diffs, err)
				}
				wg.Go(func() {
					for _, state := range []netstate.State{own(i), shared(i)} {
						if err := s.Remove(t.Context(), state, false); err != nil {
							t.Errorf("remove %d: %v", i, err)
						}
					}
				})
			}
			wg.Wait()
			if text := m.iptables(dir); strings.Contains(text, "CLEAT-tcp") || strings.Contains(text, "pods") {
				t.Errorf("rules are left\n%s", text)
			}
		})
	}
}
