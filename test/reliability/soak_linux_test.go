package reliability

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/libcni"
)

const (
	soakers     = 4   // containers at a time
	soakWarm    = 12  // and at first, so that what is kept for later calls has its full size
	soakSamples = 24  // looks at what the process holds
	soakKills   = 100 // one of so many ADDs is done by a process that is killed
)

// soak is a long run, and what is counted of it.
type soak struct {
	*machine
	list *libcni.NetworkConfigList
	raw  []byte
	s    *side

	mu            sync.Mutex
	rng           *rand.Rand
	killer        *worker
	made          int
	killed, early int // kills, and those of a process that was not done
}

// TestSoak adds and deletes containers for a long time in one process, with the whole chain; one of a hundred is added by a process
// that is killed meanwhile, and what that leaves is freed by DEL or by GC. Between stretches nothing is attached but the bystander, and
// then memory, descriptors, threads, files, links and rules are counted: they do not grow.
func TestSoak(t *testing.T) {
	m := newMachine(t)
	plugins := m.chain()
	k := &soak{machine: m, list: m.list(plugins...), raw: conf(plugins...), s: m.open(0), rng: random(t, 1)}
	clean := m.settle(k.s, k.list)
	for i := range soakWarm {
		m.newPod(slot(i))
	}
	k.stretch(4*soakWarm, soakWarm)
	k.made = 0
	began := time.Now()
	var samples []sample
	each := max(*pairs/soakSamples, 1)
	for k.made < *pairs {
		k.stretch(each, soakers)
		m.same(fmt.Sprintf("after %d pairs", k.made), clean)
		samples = append(samples, m.measure(k.made))
		if t.Failed() {
			break
		}
	}
	t.Logf("%d pairs in %v, %d killed (%d of them done already)", k.made, time.Since(began).Round(time.Second), k.killed, k.early)
	judge(t, samples)
	m.must(k.s.CheckNetworkList(t.Context(), k.list, m.attachment(bystander, 0)))
}

func slot(i int) string { return fmt.Sprintf("slot%d", i) }

// stretch makes so many pairs of ADD and DEL, some at a time, and waits for their end.
func (k *soak) stretch(n, atOnce int) {
	var wait sync.WaitGroup
	todo := make(chan int)
	for i := range atOnce {
		wait.Go(func() {
			for number := range todo {
				k.pair(i, number)
			}
		})
	}
	for range n {
		todo <- k.made
		k.made++
	}
	close(todo)
	wait.Wait()
}

// pair adds a container that never was before to the namespace of a slot, and takes it away again.
func (k *soak) pair(i, number int) {
	id := fmt.Sprintf("soak-%d", number)
	rt := k.attachment(id, 20_000+i)
	rt.NetNS = k.pod(slot(i))
	k.mu.Lock()
	dies := k.rng.IntN(soakKills) == 0
	k.mu.Unlock()
	if dies {
		k.killOne(id, slot(i))
		if number%2 == 0 {
			if _, err := k.s.CollectNetworkList(k.Context(), k.list, libcni.CollectArgs{}); err != nil {
				k.Errorf("GC: %v", err)
			}
			if known, err := k.s.GetNetworkListCachedResult(k.list, rt); known == nil && err == nil {
				return // the kill came before its end
			}
		}
	} else if _, err := k.s.AddNetworkList(k.Context(), k.list, rt); err != nil {
		k.Errorf("ADD: %v", err)
		return
	}
	if err := k.s.DelNetworkList(k.Context(), k.list, rt); err != nil {
		k.Errorf("DEL: %v", err)
	}
}

// killOne has another process add a container, and kills it within the time that takes. Only one is killed at a time.
func (k *soak) killOne(id, in string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killer == nil {
		k.killer = startWorker(k)
		// It is ready when it has done something.
		if a, err := k.killer.do(job{Verb: verbDel, On: k.wiring, Conf: k.raw, ID: "nobody"}); err != nil || !a.done() {
			k.Errorf("DEL of nothing: %v %s", err, a.Err)
		}
	}
	end := k.killer.begin(job{Verb: verbAdd, On: k.wiring, Conf: k.raw, ID: id, In: in, Port: 30_000})
	<-time.After(time.Duration(k.rng.IntN(30_000)) * time.Microsecond)
	if err := k.killer.kill(); err != nil {
		k.Errorf("kill: %v", err)
	}
	if _, err := end(); err == nil {
		k.early++
	}
	k.killed++
	k.killer = nil
}

// sample is what the process and the machine hold at one time.
type sample struct {
	pairs  int
	counts map[string]float64
}

// limits say by how much a count may grow from the first quarter of a run to its end.
func limits() map[string]float64 {
	return map[string]float64{"heap KiB": 1024, "descriptors": 3, "threads": 6, "goroutines": 3, "files": 8, "lines of state": 0.5}
}

func (m *machine) measure(pairs int) sample {
	m.Helper()
	s := sample{pairs: pairs, counts: map[string]float64{}}
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.counts["heap KiB"] = float64(mem.HeapAlloc) / 1024
	s.counts["goroutines"] = float64(runtime.NumGoroutine())
	for name, dir := range map[string]string{"descriptors": "/proc/self/fd", "threads": "/proc/self/task"} {
		entries, err := os.ReadDir(dir)
		m.must(err)
		s.counts[name] = float64(len(entries))
	}
	files := 0
	m.must(filepath.WalkDir(m.Dir, func(path string, _ os.DirEntry, err error) error {
		if path == m.path("lock") {
			return filepath.SkipDir // there come to be 256, and no more
		}
		files++
		return err
	}))
	s.counts["files"] = float64(files)
	s.counts["lines of state"] = float64(strings.Count(m.dump(), "\n"))
	return s
}

// judge wants no count to grow. What a process takes in the first quarter of a run is what it needs.
func judge(t *testing.T, samples []sample) {
	t.Helper()
	samples = samples[len(samples)/4:]
	if len(samples) < 3 {
		t.Fatalf("%d samples are too few to judge by", len(samples))
	}
	for name, limit := range limits() {
		slope := slopeOf(samples, name)
		grown := slope * float64(samples[len(samples)-1].pairs-samples[0].pairs)
		first, last := samples[0].counts[name], samples[len(samples)-1].counts[name]
		t.Logf("%s: %.0f, then %.0f in the end: %+.2f for 1,000 pairs", name, first, last, slope*1000)
		if grown > limit {
			t.Errorf("%s grow: %+.1f, more than %.1f", name, grown, limit)
		}
	}
}

// slopeOf is the slope of the line through the samples that has the least squares.
func slopeOf(samples []sample, name string) float64 {
	var n, x, y, xx, xy float64
	for _, s := range samples {
		p, c := float64(s.pairs), s.counts[name]
		n, x, y, xx, xy = n+1, x+p, y+c, xx+p*p, xy+p*c
	}
	slope := (n*xy - x*y) / (n*xx - x*x)
	if math.IsNaN(slope) {
		return 0
	}
	return slope
}
