//go:build amd64 || arm64

package crash

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

// prepared builds the programs and gives the folders.
func prepared(t *testing.T) setup {
	t.Helper()
	sandbox.Require(t)
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w -X main.version=test",
		"-o", bin+"/", "github.com/cleat-cni/cleat/cmd/cleat", "github.com/cleat-cni/cleat/cmd/cleat-cni")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return setup{base: t.TempDir(), bin: bin, self: self}
}

// random is the source of the order and of times; how to get the same again is logged.
func random(t *testing.T) *rand.Rand {
	n := *seed
	if n == 0 {
		n = rand.Uint64()
	}
	t.Logf("-crash.seed=%d", n)
	return rand.New(rand.NewPCG(n, 0))
}

func crew(t *testing.T, s setup) []*worker {
	t.Helper()
	var list []*worker
	for i := range *workers {
		w, err := startWorker(s, i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.stop(); err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
		})
		list = append(list, w)
	}
	return list
}

// TestEveryPoint disturbs each verb at each point in each way, and follows up in each way: all runs, or as many, chosen
// by chance, as the time allows.
func TestEveryPoint(t *testing.T) {
	s := prepared(t)
	crew := crew(t, s)
	rng := random(t)
	for name := range strings.SplitSeq(*faulty, ",") {
		if name != "all" && faultNamed(name).way == watch {
			t.Fatalf("no fault %q", name)
		}
	}
	turns, counted := survey(t, crew, rng)
	var jobs []job
	for _, turn := range turns {
		rng.Shuffle(len(turn), func(i, k int) { turn[i], turn[k] = turn[k], turn[i] })
		jobs = append(jobs, turn...)
	}
	all := len(jobs)
	if *only != "" {
		jobs = selected(jobs, *only)
	}
	inWorlds(jobs)
	done := handOut(t, crew, jobs, *budget)
	t.Logf("%s × follow-ups %d: %d of %d runs (%d did not come to their point), %d leaks",
		counted, len(followUps()), done.runs, all, done.missed, done.leaks)
	if done.runs == 0 {
		t.Error("nothing was run")
	}
}

// inWorlds reorders each few hundred jobs so that those that can share a world come one after another, and those that use one up
// at the end.
func inWorlds(jobs []job) {
	const few = 240
	for part := range slices.Chunk(jobs, few) {
		slices.SortStableFunc(part, func(a, b job) int {
			spends := func(j job) int {
				switch {
				case j.Verb == verbColdAdd:
					return 2
				case j.Follow == followReboot:
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Form, b.Form), cmp.Compare(spends(a), spends(b)))
		})
	}
}

// survey counts the points of every verb and lists the jobs: each point with each fault has its turn once before any has it a second
// time, with another follow-up.
func survey(t *testing.T, crew []*worker, rng *rand.Rand) (turns [][]job, counted string) {
	t.Helper()
	turns = make([][]job, len(followUps()))
	points, ways := 0, map[string]bool{}
	for _, verb := range undisturbed(t, crew) {
		chosen := worthwhile(verb.points)
		t.Logf("%s %s %s: %d points, %d of them worthwhile", verb.Chain, verb.Form, verb.Verb, len(verb.points), len(chosen))
		points += len(chosen)
		for _, n := range chosen {
			all := faults(verb.Form)
			if strings.HasSuffix(verb.points[n-1], " socket") {
				all = append(all, faultsOfMessages()...)
			}
			for _, fault := range all {
				if !wanted(fault) {
					continue
				}
				ways[fault.name] = true
				for i, k := range rng.Perm(len(followUps())) {
					j := verb.job
					j.N, j.Fault, j.Follow = n, fault.name, followUps()[k]
					turns[i] = append(turns[i], j)
				}
			}
		}
	}
	return turns, fmt.Sprintf("points %d × faults %d", points, len(ways))
}

// surveyed is a verb of a network in a form, with its points.
type surveyed struct {
	job
	points []string
}

// undisturbed runs each verb that may be wanted once without a fault.
func undisturbed(t *testing.T, crew []*worker) []surveyed {
	t.Helper()
	var list []surveyed
	for _, c := range chosenChains(t) {
		for _, f := range forms() {
			for _, verb := range verbs(f) {
				if j := (job{Chain: c.name, Form: f, Verb: verb, Follow: followDel}); concerned(j) {
					list = append(list, surveyed{job: j})
				}
			}
		}
	}
	queue := make(chan *surveyed)
	var wg sync.WaitGroup
	for _, w := range crew {
		wg.Go(func() {
			for s := range queue {
				a, err := w.do(s.job)
				if err != nil || len(a.Leaks) > 0 || len(a.Points) == 0 {
					t.Errorf("%v: %v %s\n%s\n%d points", s.job, err, strings.Join(a.Leaks, "\n"), a.Ended, len(a.Points))
				}
				s.points = a.Points
			}
		})
	}
	for i := range list {
		queue <- &list[i]
	}
	close(queue)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return list
}

// chosenChains are the networks of -crash.chains.
func chosenChains(t *testing.T) []chain {
	t.Helper()
	if *which == "all" {
		return chains()
	}
	var list []chain
	for name := range strings.SplitSeq(*which, ",") {
		i := slices.IndexFunc(chains(), func(c chain) bool { return c.name == name })
		if i < 0 {
			t.Fatalf("no network %q", name)
		}
		list = append(list, chains()[i])
	}
	return list
}

// wanted reports whether a fault is among -crash.faults.
func wanted(f fault) bool {
	return *faulty == "all" || slices.Contains(strings.Split(*faulty, ","), f.name)
}

// concerned reports whether -crash.only, if it begins with a network's name, may select runs of this network, form and verb.
func concerned(j job) bool {
	prefix := fmt.Sprintf("%s/%s/%s/", j.Chain, j.Form, j.Verb)
	first, _, whole := strings.Cut(*only, "/")
	if !whole || !slices.ContainsFunc(chains(), func(c chain) bool { return c.name == first }) {
		return true
	}
	return strings.HasPrefix(prefix, *only) || strings.HasPrefix(*only, prefix)
}

// worthwhile are the numbers of points, without most of those at which a GC takes its 256 operation locks, one like the other.
func worthwhile(points []string) []int {
	lock := regexp.MustCompile(`operation-[0-9a-f]{2}\.lock`)
	var list []int
	for i, p := range points {
		first := i < 4 || !lock.MatchString(points[i-4])
		last := i+4 >= len(points) || !lock.MatchString(points[i+4])
		if !lock.MatchString(p) || first || last {
			list = append(list, i+1)
		}
	}
	return list
}

func selected(jobs []job, text string) []job {
	var list []job
	for _, j := range jobs {
		if strings.Contains(j.String()+"/", text) {
			list = append(list, j)
		}
	}
	return list
}
