//go:build amd64 || arm64

package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Verbs of jobs that are no single runs: a kill of ADD or DEL after N thousandths of the time that it takes, and a round of N cold ADDs.
const (
	verbKillAdd   = "kill-add"
	verbKillDel   = "kill-del"
	verbColdRound = "cold-round"
)

// killed does a job of verbKillAdd or verbKillDel: whatever a kill leaves, a GC frees without DEL.
func (w *world) killed(j job) (answer, error) {
	if err := w.newPod(subject); err != nil {
		return answer{}, err
	}
	verb := "add"
	if j.Verb == verbKillDel {
		verb = "del"
		if err := w.setUp("add", subject); err != nil {
			return answer{}, err
		}
	}
	a := answer{At: "a random time", Ended: "ended by itself"}
	cmd, err := w.attach(verb, subject)
	if err != nil {
		return a, err
	}
	after := w.usual(verb) * time.Duration(j.N) / 1000
	begun := time.Now()
	err = w.host.Do(func() error {
		c := exec.Command(cmd.path, cmd.args...)
		c.Env = cmd.env
		if err := c.Start(); err != nil {
			return err
		}
		timer := time.AfterFunc(after, func() {
			_ = c.Process.Kill() // it may have ended
		})
		_ = c.Wait() // how it ended is seen by its state
		timer.Stop()
		if s, ok := c.ProcessState.Sys().(interface{ Signaled() bool }); ok && s.Signaled() {
			a.Ended = "killed"
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	w.learn(verb, a.Ended == "killed", time.Since(begun))
	// A plugin that outlives its runtime is this process's child now. It ends before anything else begins.
	for err == nil {
		_, err = unix.Wait4(-1, nil, 0, nil)
	}
	if !errors.Is(err, unix.ECHILD) {
		return a, err
	}
	leaks, err := w.follow(job{Verb: j.Verb, N: j.N, Follow: followGC})
	if err == nil && len(leaks) == 0 {
		leaks, err = w.next(followGC)
	}
	a.Leaks = leaks
	return a, err
}

// usual is how long a verb takes in this world, as far as the kills have shown.
func (w *world) usual(verb string) time.Duration {
	if w.took[verb] == 0 {
		return 20 * time.Millisecond
	}
	return w.took[verb]
}

// learn has usual follow the load of the machine: a verb that ended by itself took that long, and one that was killed late takes longer
// than was thought.
func (w *world) learn(verb string, killed bool, took time.Duration) {
	switch usual := w.usual(verb); {
	case !killed:
		w.took[verb] = took
	case took > usual*3/4:
		w.took[verb] = usual * 5 / 4
	}
}

// coldRound does a job of verbColdRound: N ADDs on a fresh host, 16 at a time, then DELs in the same way.
func (w *world) coldRound(j job) (answer, error) {
	a := answer{At: "cold"}
	ids := make([]string, j.N)
	for i := range ids {
		ids[i] = fmt.Sprintf("pod%d", i)
		if err := w.newPod(ids[i]); err != nil {
			return a, err
		}
	}
	added := w.together(ids, func(i int) command {
		return w.command("add", ids[i], "--publish", fmt.Sprintf("%d:80", 20000+i), "--publish", fmt.Sprintf("%d:53/udp", 20000+i))
	})
	addrs := map[string]string{}
	for i, o := range added {
		addr := regexp.MustCompile(`10\.99\.\d+\.\d+`).FindString(o.stdout)
		switch other, twice := addrs[addr]; {
		case !o.ok():
			a.Leaks = append(a.Leaks, fmt.Sprintf("ADD of %s: %s", ids[i], strings.TrimSpace(o.stderr)))
		case twice:
			a.Leaks = append(a.Leaks, fmt.Sprintf("%s has the address %s, and so has %s", ids[i], addr, other))
		}
		addrs[addr] = ids[i]
	}
	for _, verb := range []string{"check", "del"} {
		for i, o := range w.together(ids, func(i int) command { return w.command(verb, ids[i]) }) {
			if !o.ok() {
				a.Leaks = append(a.Leaks, fmt.Sprintf("%s of %s: %s%s", verb, ids[i], o.stdout, strings.TrimSpace(o.stderr)))
			}
		}
	}
	left, err := w.leaks()
	a.Leaks = append(a.Leaks, left...)
	return a, err
}

// together runs a command for each container, 16 at a time.
func (w *world) together(ids []string, cmd func(i int) command) []outcome {
	outcomes := make([]outcome, len(ids))
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			o, err := w.run(cmd(i))
			if err != nil {
				o.hung, o.stderr = true, err.Error()
			}
			outcomes[i] = o
		})
	}
	wg.Wait()
	return outcomes
}

// becomeReaper makes orphans of this process's children its own.
func becomeReaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return nil
}

// TestRandomKills kills ADD and DEL at any time, between system calls and in them.
func TestRandomKills(t *testing.T) {
	s := prepared(t)
	crew := crew(t, s)
	rng := random(t)
	var jobs []job
	chains := chosenChains(t)
	for i := range *kills {
		j := job{Form: forms()[i/2%len(forms())], Verb: verbKillAdd, N: 1 + rng.IntN(1000), Fault: "kill", Follow: followGC}
		j.Chain = chains[i/2/len(forms())%len(chains)].name
		if i%2 == 1 {
			j.Verb = verbKillDel
		}
		jobs = append(jobs, j)
	}
	inWorlds(jobs)
	done := handOut(t, crew, jobs, 0)
	t.Logf("%d random kills (%d came too late): %d leaks after GC without DEL", done.runs, done.runs-done.killed, done.leaks)
}

// TestColdAdds adds containers on hosts where nothing is set up yet, in processes that all begin at once.
func TestColdAdds(t *testing.T) {
	s := prepared(t)
	crew := crew(t, s)
	const each = 60
	chains := slices.DeleteFunc(chosenChains(t), func(c chain) bool { return c.name == "static" }) // which gives no addresses by itself
	var jobs []job
	for i := range *rounds {
		form := []form{builtIn, execd}[i%2]
		jobs = append(jobs, job{Chain: chains[i/2%len(chains)].name, Form: form, Verb: verbColdRound, N: each})
	}
	done := handOut(t, crew[:1], jobs, 0)
	t.Logf("%d rounds × %d cold ADDs, 16 at a time: %d rounds with failures, duplicates or leaks", done.runs, each, done.leaks)
}
