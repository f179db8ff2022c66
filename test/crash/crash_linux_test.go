//go:build amd64 || arm64

package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	turns, counted := survey(t, crew[0], rng)
	var jobs []job
	for _, turn := range turns {
		rng.Shuffle(len(turn), func(i, k int) { turn[i], turn[k] = turn[k], turn[i] })
		jobs = append(jobs, turn...)
	}
	all := len(jobs)
	if *only != "" {
		jobs = selected(jobs, *only)
	}
	done := handOut(t, crew, jobs, *budget)
	t.Logf("%s × follow-ups %d: %d of %d runs (%d did not come to their point), %d leaks",
		counted, len(followUps()), done.runs, all, done.missed, done.leaks)
	if done.runs == 0 {
		t.Error("nothing was run")
	}
}

// survey counts the points of every verb and lists the jobs: each point with each fault has its turn once before any has it a second
// time, with another follow-up.
func survey(t *testing.T, w *worker, rng *rand.Rand) (turns [][]job, counted string) {
	t.Helper()
	turns = make([][]job, len(followUps()))
	points, ways := 0, map[string]bool{}
	plan := func(c chain, f form, verb string) {
		a, err := w.do(job{Chain: c.name, Form: f, Verb: verb, Follow: followDel})
		if err != nil || len(a.Leaks) > 0 || len(a.Points) == 0 {
			t.Fatalf("%s %s %s without a fault: %v %s\n%s\n%d points", c.name, f, verb, err, strings.Join(a.Leaks, "\n"), a.Ended, len(a.Points))
		}
		chosen := worthwhile(a.Points)
		t.Logf("%s %s %s: %d points, %d of them worthwhile", c.name, f, verb, len(a.Points), len(chosen))
		points += len(chosen)
		for _, n := range chosen {
			all := faults(f)
			if strings.HasSuffix(a.Points[n-1], " socket") {
				all = append(all, faultsOfMessages()...)
			}
			for _, fault := range all {
				ways[fault.name] = true
				for i, k := range rng.Perm(len(followUps())) {
					turns[i] = append(turns[i], job{Chain: c.name, Form: f, Verb: verb, N: n, Fault: fault.name, Follow: followUps()[k]})
				}
			}
		}
	}
	for _, c := range chosenChains(t) {
		for _, f := range []form{builtIn, execd} {
			for _, verb := range verbs() {
				plan(c, f, verb)
			}
		}
	}
	return turns, fmt.Sprintf("points %d × faults %d", points, len(ways))
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

// tally counts what came of jobs.
type tally struct {
	runs, leaks int
	missed      int // did not come to their point
	killed      int
}

// handOut gives jobs to the crew until the time is over; 0 is as long as it takes.
func handOut(t *testing.T, crew []*worker, jobs []job, limit time.Duration) (done tally) {
	var end time.Time
	if limit > 0 {
		end = time.Now().Add(limit)
	}
	queue := make(chan job)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, w := range crew {
		wg.Go(func() {
			for j := range queue {
				a, err := w.do(j)
				mu.Lock()
				done.runs++
				if a.At == "" {
					done.missed++
				}
				if a.Ended == "killed" {
					done.killed++
				}
				if err != nil || len(a.Leaks) > 0 {
					done.leaks++
					t.Errorf("%v at %q\nended: %s\n%s%s", j, a.At, a.Ended, strings.Join(a.Leaks, "\n"), errorText(err))
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	for _, j := range jobs {
		if !end.IsZero() && time.Now().After(end) {
			break
		}
		queue <- j
	}
	close(queue)
	wg.Wait()
	return done
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("\n%v", err)
}
