package reliability

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// crew are several processes.
type crew []*worker

func newCrew(t testing.TB, n int) crew {
	t.Helper()
	c := make(crew, n)
	for i := range c {
		c[i] = startWorker(t)
	}
	return c
}

// together does n jobs, as many at a time in each process.
func (c crew) together(n, each int, jobOf func(i int) job) []answer {
	answers := make([]answer, n)
	next := 0
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, w := range c {
		for range each {
			wait.Go(func() {
				for {
					mu.Lock()
					i := next
					next++
					mu.Unlock()
					if i >= n {
						return
					}
					a, err := w.do(jobOf(i))
					if err != nil {
						a.Err = err.Error()
					}
					answers[i] = a
				}
			})
		}
	}
	wait.Wait()
	return answers
}

// bare wants that nothing of any container is on the machine.
func (m *machine) bare(when string) {
	m.Helper()
	for line := range strings.SplitSeq(m.dumpOf("host", m.host)+strings.Join(m.files(), "\n"), "\n") {
		for _, sign := range []string{"link veth", "link bwp", ` net `, "file "} {
			if strings.Contains(line, sign) && !strings.Contains(line, "table ") {
				m.Errorf("%s: %s", when, line)
				break
			}
		}
	}
	if held := m.locked(); len(held) > 0 {
		m.Errorf("%s locks are held: %q", when, held)
	}
}

// TestColdAdds adds containers in many processes at once on a machine where nothing was ever set up: bridge, tables and folders are
// made by whoever comes first. No ADD fails, and no address is given twice.
func TestColdAdds(t *testing.T) {
	c := newCrew(t, 16)
	round := func(t *testing.T, n, each int) {
		m := newMachine(t)
		plugins := m.chain()
		name := func(i int) string { return fmt.Sprintf("pod%d", i) }
		for i := range n {
			m.newPod(name(i))
		}
		verb := func(verb string) []answer {
			return c.together(n, each, func(i int) job {
				return job{Verb: verb, On: m.wiring, Conf: conf(plugins...), ID: name(i), Port: 20_000 + i}
			})
		}
		owner := map[string]string{}
		for i, a := range verb(verbAdd) {
			if !a.done() || len(a.Addrs) != 1 {
				t.Errorf("ADD of %s: %v, error %s", name(i), a.Addrs, a.Err)
				continue
			}
			if other := owner[a.Addrs[0]]; other != "" {
				t.Errorf("%s was given to %s and to %s", a.Addrs[0], other, name(i))
			}
			owner[a.Addrs[0]] = name(i)
		}
		for _, v := range []string{verbCheck, verbDel} {
			for i, a := range verb(v) {
				if !a.done() {
					t.Errorf("%s of %s: %s", v, name(i), a.Err)
				}
			}
		}
		m.bare("after DEL")
	}
	for i := range *rounds {
		t.Run(fmt.Sprintf("16-at-a-time-%d", i), func(t *testing.T) { round(t, 60, 1) })
	}
	t.Run("64-at-a-time", func(t *testing.T) { round(t, 80, 4) })
}

// TestAddAgainstDel has many processes add and delete one container. Each ADD succeeds or finds it attached, each DEL succeeds,
// and in the end it is attached as it should be, or there is nothing of it.
func TestAddAgainstDel(t *testing.T) {
	m := newMachine(t)
	plugins := m.chain()
	m.newPod(subject)
	var added, refused int
	for i, a := range newCrew(t, 4).together(96, 2, func(i int) job {
		return job{Verb: []string{verbAdd, verbDel}[i%2], On: m.wiring, Conf: conf(plugins...), ID: subject, Port: 8002}
	}) {
		switch {
		case a.done() && i%2 == 0:
			added++
		case i%2 == 0 && a.Code == cni.CodeInvalidEnvironment && strings.Contains(a.Err, "already"):
			refused++
		case !a.done():
			t.Errorf("%s: %s", []string{"ADD", "DEL"}[i%2], a.Err)
		}
	}
	t.Logf("%d of 48 ADDs attached it, %d found it attached", added, refused)
	s, list := m.open(0), m.list(plugins...)
	known, err := s.GetNetworkListCachedResult(list, m.attachment(subject, 0))
	m.must(err)
	if known != nil {
		m.must(s.CheckNetworkList(t.Context(), list, m.attachment(subject, 0)))
		m.must(s.DelNetworkList(t.Context(), list, m.attachment(subject, 0)))
	}
	m.bare("in the end")
}

// TestAddAgainstGC has processes add, check and delete containers while others collect, by liveness and by a list of what is
// attached. Nothing is collected that is attached or being added.
func TestAddAgainstGC(t *testing.T) {
	m := newMachine(t)
	plugins := m.chain()
	var (
		mu       sync.Mutex
		attached = map[cni.Attachment]bool{}
		adding   = map[string]time.Time{}
		stop     = make(chan struct{})
		wait     sync.WaitGroup
		collects int
	)
	// note keeps the books of a runtime: what is attached, and since when what is not yet has been being added.
	note := func(id, verb string, done bool) {
		mu.Lock()
		defer mu.Unlock()
		a := cni.Attachment{ContainerID: id, IfName: "eth0"}
		switch {
		case verb == verbDel:
			delete(attached, a)
		case verb == verbAdd && done:
			attached[a] = true
			delete(adding, id)
		case verb == verbAdd:
			adding[id] = time.Now()
		}
	}
	c := newCrew(t, 4)
	wait.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			j := job{Verb: []string{verbCollect, verbGC}[i%2], On: m.wiring, Conf: conf(plugins...)}
			mu.Lock()
			j.GCArgs.Since = time.Now()
			for _, began := range adding {
				if began.Before(j.GCArgs.Since) {
					j.GCArgs.Since = began
				}
			}
			j.GCArgs.ValidAttachments = slices.Collect(maps.Keys(attached))
			mu.Unlock()
			if a, err := c[0].do(j); err != nil || !a.done() {
				t.Errorf("%s: %v %s", j.Verb, err, a.Err)
			}
			collects++
		}
	})
	var work sync.WaitGroup
	for n := range 6 {
		id := fmt.Sprintf("pod%d", n)
		m.newPod(id)
		work.Go(func() {
			for range 8 {
				for _, verb := range []string{verbAdd, verbCheck, verbCheck, verbDel} {
					note(id, verb, false)
					a, err := c[1+n%3].do(job{Verb: verb, On: m.wiring, Conf: conf(plugins...), ID: id, Port: 20_000 + n})
					if err != nil || !a.done() {
						t.Errorf("%s of %s: %v %s", verb, id, err, a.Err)
						return
					}
					note(id, verb, true)
				}
			}
		})
	}
	work.Wait()
	close(stop)
	wait.Wait()
	t.Logf("%d collections", collects)
	m.bare("in the end")
}

// await waits until something is so that comes by itself.
func (m *machine) await(what string, is func() bool) {
	m.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			m.Fatalf("never came: %s", what)
		}
	}
}

// TestTwoRuntimes has two runtimes with records of their own on one network. No address is given twice, neither collects what lives
// of the other, and what died without a DEL is freed by whoever collects first.
func TestTwoRuntimes(t *testing.T) {
	m := newMachine(t)
	plugins := m.chain()
	second := m.wiring
	second.State = "second"
	crews := []crew{newCrew(t, 2), newCrew(t, 2)}
	sides := []wiring{m.wiring, second}
	const each = 12
	name := func(side, i int) string { return fmt.Sprintf("side%d-pod%d", side, i) }
	all := func(verb string) []answer {
		both := make([][]answer, 2)
		var wait sync.WaitGroup
		for side := range 2 {
			wait.Go(func() {
				both[side] = crews[side].together(each, 2, func(i int) job {
					return job{Verb: verb, On: sides[side], Conf: conf(plugins...), ID: name(side, i), Port: 20_000 + side*each + i}
				})
			})
		}
		wait.Wait()
		for side := range 2 {
			for i, a := range both[side] {
				if !a.done() {
					t.Errorf("%s of %s: %s", verb, name(side, i), a.Err)
				}
			}
		}
		return append(both[0], both[1]...)
	}
	for side := range 2 {
		for i := range each {
			m.newPod(name(side, i))
		}
	}
	owner := map[string]int{}
	for i, a := range all(verbAdd) {
		for _, addr := range a.Addrs {
			if other, twice := owner[addr]; twice {
				t.Errorf("%s was given twice, in ADD %d and %d", addr, other, i)
			}
			owner[addr] = i
		}
	}
	all(verbCollect)
	all(verbCheck)
	for i := range each { // half of the first one's pods die, and no DEL comes
		if i%2 == 0 {
			m.removePod(name(0, i))
		}
	}
	m.await("the links of dead pods are gone", func() bool {
		return strings.Count(m.dumpOf("host", m.host), "link veth") == each+each/2
	})
	a, err := crews[1][0].do(job{Verb: verbCollect, On: second, Conf: conf(plugins...)})
	if err != nil || !a.done() {
		t.Fatalf("collect: %v %s", err, a.Err)
	}
	leases := 0
	for _, file := range m.files() {
		if strings.HasPrefix(file, "file data/net/") {
			leases++
		}
	}
	if want := each + each/2; leases != want {
		t.Errorf("%d leases after the other one's GC, want those of the %d that live", leases, want)
	}
	first := m.open(0)
	_, err = first.CollectNetworkList(t.Context(), m.list(plugins...), libcni.CollectArgs{})
	m.must(err)
	records, err := first.Attachments(t.Context())
	m.must(err)
	if len(records) != each/2 {
		t.Errorf("%d records of the first one after its GC, want %d", len(records), each/2)
	}
	all(verbDel)
	m.bare("after DEL")
}
