//go:build amd64 || arm64

package crash

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// job is one run: a verb that is disturbed at a point, and what follows.
type job struct {
	Chain  string
	Form   form
	Verb   string
	N      int // of the point, from 1; 0 only counts them
	Fault  string
	Follow string
	Search search
}

func (j job) String() string {
	return fmt.Sprintf("%s/%s/%s/%d/%s/%s", j.Chain, j.Form, j.Verb, j.N, j.Fault, j.Follow)
}

// The verbs. A cold ADD is the first on its host.
const (
	verbColdAdd = "cold-add"
	verbAdd     = "add"
	verbDel     = "del"
	verbCheck   = "check"
	verbGC      = "gc"
)

// verbs are those of a form. The reference's cnitool collects everything, which leaves nothing to hold it to.
func verbs(f form) []string {
	list := []string{verbColdAdd, verbAdd, verbDel, verbCheck}
	if f == reference {
		return list
	}
	return append(list, verbGC)
}

// The follow-ups.
const (
	followDel    = "del"
	followDel2   = "del-twice"
	followGC     = "gc"
	followAdd    = "add-again"
	followReboot = "reboot"
)

func followUps() []string { return []string{followDel, followDel2, followGC, followAdd, followReboot} }

// deadline is the --timeout of commands that hang, which they do for a little longer.
const deadline = 250 * time.Millisecond

func faults(f form) []fault {
	list := []fault{
		{name: "kill-before", way: killBefore}, {name: "kill-after", way: killAfter},
		{name: "timeout", way: hang, errno: unix.ETIMEDOUT}, {name: "late", way: stall},
	}
	for _, errno := range []unix.Errno{unix.EINTR, unix.EBUSY, unix.ENOSPC, unix.EIO, unix.ENODEV, unix.EEXIST} {
		list = append(list, fault{name: unix.ErrnoName(errno), way: fail, errno: errno})
	}
	if f != builtIn {
		list = append(list, fault{name: "kill-all-before", way: killAll}, fault{name: "kill-all-after", way: killAllLate},
			fault{name: "kill-runtime", way: killRoot})
	}
	return list
}

// faultsOfMessages are those of points that send messages to the kernel. None of the errors is one by which a kernel says that there is
// nothing to delete: who is told so has no reason to look again.
func faultsOfMessages() []fault {
	return []fault{
		{name: "no-answer", way: deaf, errno: unix.ENOBUFS}, {name: "refused-first", way: refuseFirst, errno: unix.EBUSY},
		{name: "refused-middle", way: refuseMiddle, errno: unix.ENOSPC}, {name: "refused-last", way: refuseLast, errno: unix.EPERM},
	}
}

func faultNamed(name string) fault {
	all := append(faults(execd), faultsOfMessages()...)
	if i := slices.IndexFunc(all, func(f fault) bool { return f.name == name }); i >= 0 {
		return all[i]
	}
	return fault{name: "none"}
}

// answer is what came of a job.
type answer struct {
	Points []string // of the disturbed command
	At     string   // the disturbed point; "" if the command took another way this time and had none of the number
	Ended  string   // how the disturbed command ended, for a report
	Leaks  []string // what was wrong
}

// perform does a job in a world that is clean, and leaves it clean unless there are leaks.
func (w *world) perform(j job) (answer, error) {
	switch j.Verb {
	case verbKillAdd, verbKillDel:
		return w.killed(j)
	case verbColdRound:
		return w.coldRound(j)
	}
	if err := w.prepare(j.Verb, j.N); err != nil {
		return answer{}, fmt.Errorf("prepare: %w", err)
	}
	f := faultNamed(j.Fault)
	cmd, err := w.disturbed(j.Verb, f.way == hang || f.way == stall)
	if err != nil {
		return answer{}, err
	}
	var before string
	if j.Verb == verbCheck {
		if before, err = w.hostDump(); err != nil {
			return answer{}, err
		}
	}
	var o outcome
	err = w.host.Do(func() error {
		var err error
		o, err = trace(cmd, disturbance{n: j.N, fault: f, hold: deadline + 30*time.Millisecond, search: j.Search})
		return err
	})
	if err != nil {
		return answer{}, fmt.Errorf("trace: %w", err)
	}
	a := answer{Points: o.points, At: o.at, Ended: ended(o)}
	if o.hung {
		a.Leaks = append(a.Leaks, "the command did not end")
	}
	for _, step := range []struct {
		name string
		do   func() ([]string, error)
	}{
		{"at once", func() ([]string, error) { return w.atOnce(j.Verb, o, before) }},
		{j.Follow, func() ([]string, error) { return w.follow(j) }},
		{"next", func() ([]string, error) { return w.next(j.Follow) }},
	} {
		leaks, err := step.do()
		if err != nil {
			leaks = append(leaks, err.Error())
		}
		for _, l := range leaks {
			a.Leaks = append(a.Leaks, step.name+": "+l)
		}
		if len(a.Leaks) > 0 {
			break
		}
	}
	return a, nil
}

func ended(o outcome) string {
	if o.killed() {
		return "killed"
	}
	return fmt.Sprintf("status %d: %s", o.status.ExitStatus(), strings.TrimSpace(o.stderr))
}

// prepare makes what the verb is about.
func (w *world) prepare(verb string, n int) error {
	if err := w.newPod(subject); err != nil {
		return err
	}
	if verb == verbAdd || verb == verbColdAdd {
		return nil
	}
	if err := w.setUp("add", subject); err != nil {
		return err
	}
	if verb == verbGC && n%2 == 0 {
		return w.removePod(subject)
	}
	return nil
}

// disturbed is the command that things go wrong in.
func (w *world) disturbed(verb string, hangs bool) (command, error) {
	var flags []string
	var timeout time.Duration
	if hangs {
		timeout = deadline
		flags = []string{"--timeout", timeout.String()}
	}
	switch verb {
	case verbGC:
		return w.gc(timeout, w.valid()...)
	case verbColdAdd:
		verb = verbAdd
	}
	return w.attach(verb, subject, flags...)
}

// valid are the containers that a GC keeps.
func (w *world) valid() []string {
	if w.cold {
		return nil
	}
	return []string{bystander}
}

// atOnce holds the command to what it said.
func (w *world) atOnce(verb string, o outcome, before string) ([]string, error) {
	switch {
	case o.killed() || o.hung:
		return nil, nil
	case (verb == verbAdd || verb == verbColdAdd) && o.ok():
		return nil, w.here("check", subject)
	case w.form == reference && (!o.ok() || strings.HasPrefix(o.at, "cnitool:")):
		return nil, nil // that runtime leaves what failed to the one who called it, and is silent about its records
	case strings.Contains(o.stderr, "what was left is freed by DEL or GC"):
		return nil, nil // the fault came into the undoing, and the error says so
	case verb == verbAdd || verb == verbColdAdd:
		return w.leaks()
	case verb == verbCheck:
		after, err := w.hostDump()
		if diff := difference(before, after); diff != "" || err != nil {
			return []string{"CHECK changed something:\n" + diff}, err
		}
		return nil, w.here("check", subject)
	case o.ok():
		return w.leaks()
	}
	return nil, nil
}

// follow does the follow-up and says what is left after it.
func (w *world) follow(j job) ([]string, error) {
	switch j.Follow {
	case followDel, followDel2:
		if err := w.started("del", subject); err != nil {
			return nil, err
		}
		if j.Follow == followDel2 { // in the reference's form this one is ours
			if err := w.must(w.cleat("del", subject)); err != nil {
				return nil, err
			}
		}
	case followGC:
		if err := w.collect(j.N%2 == 1); err != nil {
			return nil, err
		}
	case followAdd:
		if err := w.addAgain(); err != nil {
			return nil, err
		}
	case followReboot:
		return w.afterReboot()
	}
	return w.leaks()
}

// collect does a GC: by who lives, if the subject's namespace is gone, or by the runtime's list, which the subject isn't on.
func (w *world) collect(gone bool) error {
	if gone {
		return errors.Join(w.removePod(subject), w.must(w.plain("gc", network)))
	}
	cmd, err := w.gc(0, w.valid()...)
	return errors.Join(err, w.must(cmd))
}

// addAgain adds the subject again, which must be refused only if it is attached, and deletes it.
func (w *world) addAgain() error {
	if w.pods[subject] == nil {
		if err := w.newPod(subject); err != nil {
			return err
		}
	}
	add, err := w.attach("add", subject)
	if err != nil {
		return err
	}
	o, err := w.run(add)
	if err != nil {
		return err
	}
	// The reference's runtime does not know what it has begun, and the plugins refuse an interface that is there.
	if !o.ok() && w.form != reference && !strings.Contains(o.stderr, "already: added") {
		return fmt.Errorf("the second ADD: %s", o.stderr)
	}
	if o.ok() {
		if err := w.started("check", subject); err != nil {
			return err
		}
	}
	return w.started("del", subject)
}

// afterReboot boots, adds the subject, and collects all others.
func (w *world) afterReboot() ([]string, error) {
	if err := errors.Join(w.reboot(), w.newPod(subject)); err != nil {
		return nil, err
	}
	// Records of the reference name no boot. Where the namespace's path is used again, the lease of before may be a living one's.
	if w.form == reference {
		if err := w.started("del", subject); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.started("add", subject), w.started("check", subject)); err != nil {
		return nil, err
	}
	cmd, err := w.gc(0, subject)
	if err := errors.Join(err, w.must(cmd), w.started("check", subject), w.started("del", subject)); err != nil {
		return nil, err
	}
	w.cold = true // the bystander is no more
	return w.leaks()
}

// next adds and deletes the successor, which takes a port of the subject. After a reboot the subject itself was that.
func (w *world) next(follow string) ([]string, error) {
	if err := w.removePod(subject); err != nil || follow == followReboot {
		return nil, err
	}
	if w.cold {
		if err := errors.Join(w.newPod(bystander), w.here("add", bystander)); err != nil {
			return nil, err
		}
	}
	if err := w.newPod(successor); err != nil {
		return nil, err
	}
	for _, verb := range []string{"add", "check", "del"} {
		if err := w.here(verb, successor); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.removePod(successor), w.untouched()); err != nil {
		return nil, err
	}
	if w.cold {
		return nil, nil
	}
	return w.leaks()
}

// untouched proves that the bystander is as it was and answers.
func (w *world) untouched() error {
	if err := w.here("check", bystander); err != nil {
		return err
	}
	now, err := dumpOf(w.pods[bystander])
	if err != nil {
		return err
	}
	if diff := difference(w.other, now); !w.cold && diff != "" {
		return fmt.Errorf("the bystander changed:\n%s", diff)
	}
	addr, err := netip.ParseAddr(regexp.MustCompile(`10\.99\.\d+\.\d+`).FindString(now))
	if err != nil {
		return fmt.Errorf("address of the bystander in %q: %w", now, err)
	}
	return w.reaches(addr.As4())
}

// leaks says what is there beyond what a clean world has.
func (w *world) leaks() ([]string, error) {
	now, err := w.hostDump()
	if err != nil {
		return nil, err
	}
	locks, err := w.locked()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, l := range locks {
		list = append(list, "lock held: "+l)
	}
	if w.cold {
		for line := range strings.Lines(now) {
			if strings.HasPrefix(line, "link veth") || strings.HasPrefix(line, "file ") || strings.Contains(line, subject) {
				list = append(list, "left: "+strings.TrimSpace(line))
			}
		}
	} else if diff := difference(w.clean, now); diff != "" {
		list = append(list, "not as before:\n"+diff)
	}
	if h := w.pods[subject]; h != nil {
		inside, err := dumpOf(h)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(inside) {
			if !strings.HasPrefix(line, "link lo ") && strings.TrimSpace(line) != "" {
				list = append(list, "in the namespace: "+strings.TrimSpace(line))
			}
		}
	}
	return list, nil
}
