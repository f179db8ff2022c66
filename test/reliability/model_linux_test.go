package reliability

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// standing is what the model knows of a container.
type standing int

const (
	absent   standing = iota
	attached          // its ADD has returned
	unsure            // its ADD was cut short, or it is of an earlier boot: it may hold an address, and nobody uses it
	halfway           // its DEL was cut short, or its ADD after it was recorded: it may have to be deleted before it can be added
)

// model is which address is whose, by what the verbs have answered: address by container. It is all that a runtime would know.
type model struct {
	has     map[string]string
	is      map[string]standing
	foreign map[string]bool // the reference's, which refuses an ADD for what an earlier one left
}

// begins notes that a verb begins: who is being deleted owns nothing any more.
func (m *model) begins(verb, id string) {
	if verb == verbDel {
		delete(m.has, id)
		m.is[id] = halfway
	}
}

// ends notes how a verb ended, and says what is wrong about that. full tells that an ADD may have found no address.
func (m *model) ends(verb, id string, a answer, died, full bool) (wrong string) {
	before := m.is[id]
	switch {
	case died && (before == attached || before == halfway): // also an ADD that had to be refused
		return ""
	case died:
		m.is[id] = unsure
		return ""
	case verb == verbAdd && before == halfway && a.Code == cni.CodeInvalidEnvironment:
		return ""
	case verb == verbDel && a.done():
		m.is[id] = absent
		return ""
	case verb == verbDel:
		return "DEL: " + a.Err
	case a.done() && before == attached:
		return "a second ADD succeeded"
	case !a.done() && before != attached && !full && (before == absent || !m.foreign[id]):
		return "ADD: " + a.Err
	case !a.done():
		return ""
	case len(a.Addrs) != 1:
		return fmt.Sprintf("ADD gave %q", a.Addrs)
	}
	for other, addr := range m.has {
		if addr == a.Addrs[0] {
			return fmt.Sprintf("%s is given to it, and is %s's", addr, other)
		}
	}
	m.has[id], m.is[id] = a.Addrs[0], attached
	return ""
}

// collected notes a GC that kept what is attached; spared are containers that something else was done to meanwhile, or whose records are
// not of whoever collected.
func (m *model) collected(spared map[string]bool) {
	for id, is := range m.is {
		if is != attached && !spared[id] {
			m.is[id] = absent
		}
	}
}

// rebooted notes that nothing lives any more. What is left on the disk may be in the way of those that don't know of boots.
func (m *model) rebooted() {
	clear(m.has)
	for id := range m.is {
		m.is[id] = unsure
	}
}

// party is whoever does verbs: a process of ours, or programs of the reference.
type party interface {
	// begin begins a verb. What is returned waits for its end; errDied if it was killed before.
	begin(verb, id string, gc libcni.GCArgs) func() (answer, error)
	// kill ends whatever it does.
	kill()
}

// ourParty is a runtime of ours in a process of its own, which is started anew when it was killed.
type ourParty struct {
	walk *walk
	w    *worker
}

func (p *ourParty) begin(verb, id string, gc libcni.GCArgs) func() (answer, error) {
	if p.w == nil {
		p.w = startWorker(p.walk)
		// It is there when it has answered.
		if a, err := p.w.do(job{Verb: verbDel, On: p.walk.wiring, Conf: p.walk.conf, ID: "nobody"}); err != nil || !a.done() {
			p.walk.Errorf("DEL of nothing: %v %s", err, a.Err)
		}
	}
	return p.w.begin(job{Verb: verb, On: p.walk.wiring, Conf: p.walk.conf, ID: id, GCArgs: gc})
}

func (p *ourParty) kill() {
	if p.w != nil {
		if err := p.w.kill(); err != nil {
			p.walk.Errorf("kill: %v", err)
		}
		p.w = nil
	}
}

// walk is a random walk on a machine whose network gives addresses and nothing else.
type walk struct {
	*machine
	*model
	rng     *rand.Rand
	conf    []byte
	parties []party
	of      map[string]party // who does the verbs of a container, and for one of ours nil: any of ours
	boots   int
	counts  map[string]int
	trace   []string // what was done last
}

// note keeps what was done, for a report.
func (w *walk) note(format string, args ...any) {
	w.trace = append(w.trace[max(0, len(w.trace)-40):], fmt.Sprintf(format, args...))
}

const (
	poolSize  = 8
	killOneOf = 6
)

func newWalk(t *testing.T, rng *rand.Rand) *walk {
	m := newMachine(t)
	m.ownBoot()
	w := &walk{
		machine: m, model: &model{has: map[string]string{}, is: map[string]standing{}, foreign: map[string]bool{}}, rng: rng,
		conf: conf(m.addressesAlone(poolSize)), of: map[string]party{}, counts: map[string]int{},
	}
	for range 3 {
		w.parties = append(w.parties, &ourParty{walk: w})
	}
	w.containers("ours", 7, nil)
	return w
}

func (w *walk) containers(name string, n int, of party) {
	for i := range n {
		id := fmt.Sprintf("%s%d", name, i)
		w.of[id], w.is[id], w.foreign[id] = of, absent, of != nil
		w.newPod(id)
	}
}

// step does something by chance.
func (w *walk) step() {
	switch n := w.rng.IntN(20); {
	case n == 0:
		w.counts["boots"]++
		w.reboot()
	case n < 4:
		w.counts["collections"]++
		w.collect(w.rng.IntN(2) == 0)
	default:
		w.round(w.choose(len(w.parties), w.of), nil)
	}
}

// choose picks containers, each with another party.
func (w *walk) choose(most int, from map[string]party) map[string]party {
	ids := slices.Sorted(maps.Keys(from))
	w.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	chosen, busy := map[string]party{}, map[party]bool{}
	for _, id := range ids {
		p := w.of[id]
		for i := 0; p == nil && i < len(w.parties); i++ {
			if own, ok := w.parties[i].(*ourParty); ok && !busy[own] {
				p = own
			}
		}
		if p != nil && !busy[p] && len(chosen) < most {
			chosen[id], busy[p] = p, true
		}
	}
	return chosen
}

// round does a verb with each of the chosen at the same time, and kills some of those that do it. beside is done meanwhile.
func (w *walk) round(chosen map[string]party, beside func()) {
	full := len(w.taken())+len(chosen) > poolSize
	type began struct {
		id, verb string
		end      func() (answer, error)
	}
	var all []began
	var wait sync.WaitGroup
	for _, id := range slices.Sorted(maps.Keys(chosen)) {
		verb := verbAdd
		if w.is[id] == attached && w.rng.IntN(5) > 0 || (w.is[id] == unsure || w.is[id] == halfway) && w.rng.IntN(2) == 0 {
			verb = verbDel
		}
		w.counts[verb]++
		w.begins(verb, id)
		p := chosen[id]
		all = append(all, began{id, verb, p.begin(verb, id, libcni.GCArgs{})})
		if w.rng.IntN(killOneOf) == 0 {
			w.counts["kills"]++
			after := time.Duration(w.rng.IntN(4000)) * time.Microsecond
			wait.Go(func() {
				<-time.After(after)
				p.kill()
			})
		}
	}
	if beside != nil {
		beside()
	}
	wait.Wait()
	for _, b := range all {
		a, err := b.end()
		w.note("%s of %s: %v %v %s", b.verb, b.id, a.Addrs, err, a.Err)
		if wrong := w.ends(b.verb, b.id, a, err != nil, full); wrong != "" {
			w.Errorf("%s: %s", b.id, wrong)
		}
		if err != nil && w.is[b.id] == unsure && w.recorded(b.id) {
			w.is[b.id] = halfway
		}
	}
}

// recorded reports whether an ADD of the container came so far that only its answer was missing.
func (w *walk) recorded(id string) bool {
	w.Helper()
	_, err := os.Stat(w.path("state", "results", network+"-"+id+"-eth0"))
	w.must(ignoreMissing(err))
	return err == nil
}

// valid are the containers that are attached.
func (w *walk) valid() []cni.Attachment {
	list := []cni.Attachment{}
	for _, id := range slices.Sorted(maps.Keys(w.has)) {
		list = append(list, cni.Attachment{ContainerID: id, IfName: "eth0"})
	}
	return list
}

// collect has somebody collect: alone, and then there is nothing left but what is attached; or while our runtimes do something else,
// which the reference's plugin leaves to the runtime to prevent.
func (w *walk) collect(alone bool) {
	p := w.parties[w.rng.IntN(len(w.parties))]
	own, isOurs := p.(*ourParty)
	if alone || !isOurs {
		w.note("GC, ours %t, valid %v", isOurs, w.valid())
		if a, err := p.begin(verbGC, "", libcni.GCArgs{ValidAttachments: w.valid()})(); err != nil || !a.done() {
			w.Errorf("GC: %v %s", err, a.Err)
		}
		others := map[string]bool{}
		for id, foreign := range w.foreign {
			others[id] = !isOurs && !foreign
		}
		if w.collected(others); isOurs {
			w.exact()
		}
		return
	}
	ours := map[string]party{}
	for id, of := range w.of {
		if of == nil {
			ours[id] = nil
		}
	}
	chosen, spared := map[string]party{}, map[string]bool{}
	for id, by := range w.choose(len(w.parties), ours) {
		if by != p {
			chosen[id], spared[id] = by, true
		}
	}
	before, since := w.valid(), time.Now()
	w.round(chosen, func() {
		// Who is being deleted is not valid any more.
		valid := slices.DeleteFunc(before, func(a cni.Attachment) bool { return w.is[a.ContainerID] != attached })
		w.note("GC beside, valid %v", valid)
		if a, err := own.begin(verbGC, "", libcni.GCArgs{ValidAttachments: valid, Since: since})(); err != nil || !a.done() {
			w.Errorf("GC: %v %s", err, a.Err)
		}
	})
	w.collected(spared)
}

// reboot turns the machine off, whoever does something, and on.
func (w *walk) reboot() {
	w.boots++
	for _, p := range w.parties {
		p.kill()
	}
	ids := slices.Collect(maps.Keys(w.pods))
	w.powerCycle(fmt.Sprintf("boot-%d", 1+w.boots))
	for _, id := range ids {
		w.newPod(id)
	}
	w.note("boot %d", w.boots)
	w.rebooted()
}

// taken are the lease files: content by address.
func (w *walk) taken() map[string]string {
	w.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(w.path("data", network))
	w.must(ignoreMissing(err))
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err == nil {
			data, err := os.ReadFile(w.path("data", network, e.Name()))
			w.must(err)
			files[e.Name()] = string(data)
		}
	}
	return files
}

// holds wants everything that is attached to hold its address.
func (w *walk) holds() {
	w.Helper()
	files := w.taken()
	for id, addr := range w.has {
		if files[addr] != id+"\r\neth0" {
			w.Errorf("%s is %s's, but its lease says %q", addr, id, files[addr])
		}
	}
}

// exact wants nothing but what is attached to hold an address, and nothing else to be recorded.
func (w *walk) exact() {
	w.Helper()
	if files := w.taken(); len(files) != len(w.has) {
		w.Errorf("after GC %d leases are left for %d attached: %q", len(files), len(w.has), files)
	}
	for _, file := range w.files() {
		if strings.HasPrefix(file, "file state/cleat/") {
			w.Errorf("after GC %s is left", file)
		}
	}
}

// TestModel adds, deletes and collects at random in several processes, kills them and turns the machine off, and holds what they answer
// against a model: no address has two owners at a time, who is attached keeps its lease, and after GC there is nothing else.
func TestModel(t *testing.T) {
	walkAll(t, func(w *walk) {})
}

// walkAll makes the random walks.
func walkAll(t *testing.T, furnish func(w *walk)) {
	rng := random(t, 2)
	for i := range *walks {
		t.Run(fmt.Sprintf("walk-%d", i), func(t *testing.T) {
			w := newWalk(t, rand.New(rand.NewPCG(rng.Uint64(), 0)))
			furnish(w)
			for n := 0; n < *steps && !t.Failed(); n++ {
				if w.step(); !t.Failed() {
					w.holds()
				}
				if t.Failed() {
					t.Logf("in step %d, after\n%s", n, strings.Join(w.trace, "\n"))
				}
			}
			t.Logf("%v", w.counts)
			clear(w.has)
			w.rebooted()
			if a, err := w.parties[0].begin(verbGC, "", libcni.GCArgs{})(); err != nil || !a.done() {
				t.Errorf("GC: %v %s", err, a.Err)
			}
			w.bare("after the last GC")
		})
	}
}
