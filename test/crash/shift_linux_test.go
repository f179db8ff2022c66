//go:build amd64 || arm64

package crash

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// progress is how often a shift says how far it is.
const progress = 30 * time.Second

// tally counts what came of jobs.
type tally struct {
	runs, leaks int
	missed      int // did not come to their point
	killed      int
}

// shift is the work on a list of jobs.
type shift struct {
	t     *testing.T
	all   int
	begun time.Time

	mu   sync.Mutex
	done tally
}

// handOut gives jobs to the crew until the time is over; 0 is as long as it takes.
func handOut(t *testing.T, crew []*worker, jobs []job, limit time.Duration) tally {
	s := &shift{t: t, all: len(jobs), begun: time.Now()}
	queue, over := make(chan job), make(chan struct{})
	var wg sync.WaitGroup
	for _, w := range crew {
		wg.Go(func() { s.serve(w, queue) })
	}
	go func() {
		defer close(over)
		wg.Wait()
	}()
	tick := time.NewTicker(progress)
	defer tick.Stop()
	for len(jobs) > 0 && (limit == 0 || time.Since(s.begun) < limit) {
		select {
		case queue <- jobs[0]:
			jobs = jobs[1:]
		case <-tick.C:
			s.tell()
		case <-over: // the workers have ended, each with an error
			return s.done
		}
	}
	close(queue)
	<-over
	return s.done
}

// serve has a worker do jobs until there are no more, or it can't.
func (s *shift) serve(w *worker, queue <-chan job) {
	for j := range queue {
		a, err := w.do(j)
		s.book(j, a, err)
		if err != nil {
			return
		}
	}
}

// book counts a run and reports what it leaked.
func (s *shift) book(j job, a answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done.runs++
	if a.At == "" {
		s.done.missed++
	}
	if a.Ended == "killed" {
		s.done.killed++
	}
	if err == nil && len(a.Leaks) == 0 {
		return
	}
	s.done.leaks++
	s.t.Errorf("%v at %q\nended: %s\n%s\nagain: -crash.chains=%s -crash.only=%v", j, a.At, a.Ended, strings.Join(a.Leaks, "\n"), j.Chain, j)
	if err != nil {
		s.t.Error(err)
	}
}

func (s *shift) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Logf("%v: %d of %d runs, %d leaks", time.Since(s.begun).Round(time.Second), s.done.runs, s.all, s.done.leaks)
}
