package network

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiterBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(2)
		var mu sync.Mutex
		running, most := 0, 0
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				done, err := l.begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer done()
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
			})
		}
		wg.Wait()
		if most != 2 || l.running != 0 {
			t.Errorf("at most %d at once and %d in the end, want 2 and 0", most, l.running)
		}
	})
}

func TestLimiterForgetsWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1)
		done, err := l.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gone := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		if _, err := l.begin(ctx); !errors.Is(err, gone) {
			t.Errorf("begin: %v, want %v", err, gone)
		}
		done()
		if done, err = l.begin(t.Context()); err != nil || len(l.waiting) > 0 {
			t.Fatalf("begin: %v, %d wait", err, len(l.waiting))
		}
		done()
	})
}

// TestLimiterFindsTheBest: a kernel that gets most done with five at once is given about five at once.
func TestLimiterFindsTheBest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(16)
		var mu sync.Mutex
		busy := 0
		work := make(chan struct{})
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range work {
					done, err := l.begin(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					busy++
					n := busy
					mu.Unlock()
					// Up to five the time stays; beyond it grows faster than their number.
					time.Sleep(time.Millisecond * time.Duration(max(10, 2*n, (n-5)*(n-5)*3)))
					mu.Lock()
					busy--
					mu.Unlock()
					done()
				}
			})
		}
		for range 4000 {
			work <- struct{}{}
		}
		close(work)
		wg.Wait()
		if l.limit < 3 || l.limit > 9 {
			t.Errorf("it came to %d at once, want about 5", l.limit)
		}
	})
}

func TestKeyedMutex(t *testing.T) {
	var k keyedMutex
	unlock := k.lock("a")
	k.lock("b")() // another name does not wait
	reached := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer k.lock("a")()
		close(reached)
	})
	select {
	case <-reached:
		t.Fatal("two hold one name")
	default:
	}
	unlock()
	wg.Wait()
	if k.lock("a")(); len(k.users) != 0 {
		t.Errorf("%d names are remembered", len(k.users))
	}
}
