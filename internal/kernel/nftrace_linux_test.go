package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// TestManyAtOnce has several processes, each with a socket of its own, and several goroutines of
// each add and remove from nothing on: no rule is made twice, and nothing is left.
func TestManyAtOnce(t *testing.T) {
	ns := sandbox.Namespace(t)
	var wg sync.WaitGroup
	for process := range 4 {
		r := openTestRuleset(t, ns)
		for worker := range 4 {
			wg.Go(func() {
				n := 1 + process*4 + worker
				s := testState(n, 9000+n)
				for range 10 {
					if _, err := r.apply(t.Context(), s, everybodyLives); err != nil {
						t.Error(err)
						return
					}
					if err := r.remove(t.Context(), s, worker%2 == 0); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	seen, err := openTestRuleset(t, ns).conn.table(t.Context(), testTable())
	if err != nil || len(seen.rules) != 3 {
		t.Errorf("%d rules, want 3; %v", len(seen.rules), err)
	}
	wantElementsLeft(t, ns)
}

// TestRuleIsAddedOnce has several processes find the same rule missing in a chain that is there.
func TestRuleIsAddedOnce(t *testing.T) {
	ns := sandbox.Namespace(t)
	var processes []*ruleset
	for range 4 {
		processes = append(processes, openTestRuleset(t, ns))
	}
	chain := netstate.Chain{Name: "c"}
	for round := range 50 {
		chain.Rules = append(chain.Rules, fmt.Sprintf("meta mark %d return", round))
		s := netstate.State{Tables: []netstate.Table{{Family: "inet", Name: netstate.TableName, Chains: []netstate.Chain{chain}}}}
		start, wg := make(chan struct{}), sync.WaitGroup{}
		for _, r := range processes {
			wg.Go(func() {
				<-start
				if _, err := r.apply(t.Context(), s, nobodyLives); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		seen, err := processes[0].conn.table(t.Context(), testTable())
		if err != nil || len(seen.rules) != round+1 {
			t.Fatalf("%d rules, want %d; %v", len(seen.rules), round+1, err)
		}
	}
}

// TestLostRace has another process act between what is read and the transaction that relies on it.
func TestLostRace(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, mine, theirs *ruleset)
		want netstate.State
	}{
		{"removed-while-taken-over", func(t *testing.T, mine, theirs *ruleset) {
			old := testState(1, 8080)
			want, err := encodeElements(old)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			err = mine.deleteIf(t.Context(), []elementKey{want[0].elementKey()}, func(_ int, have nftElement) bool {
				if asked++; asked == 1 {
					if _, err := theirs.apply(t.Context(), testState(2, 8080), nobodyLives); err != nil {
						t.Error(err)
					}
				}
				return markOf(have) == old.Owner.Mark()
			}, noReplacement)
			if err != nil || asked != 2 {
				t.Errorf("asked %d times; %v", asked, err)
			}
		}, testState(2, 8080)},
		{"taken-over-by-two", func(t *testing.T, mine, theirs *ruleset) {
			asked := 0
			_, err := mine.apply(t.Context(), testState(3, 8080), func(ctx context.Context, lives string) bool {
				if asked++; asked == 1 {
					if _, err := theirs.apply(ctx, testState(2, 8080), nobodyLives); err != nil {
						t.Error(err)
					}
				}
				return lives == "link veth2"
			})
			if !errors.Is(err, netstate.ErrInUse) || asked != 2 {
				t.Errorf("asked %d times; %v", asked, err)
			}
		}, testState(2, 8080)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := sandbox.Namespace(t)
			mine, theirs := openTestRuleset(t, ns), openTestRuleset(t, ns)
			mustApply(t, theirs, testState(1, 8080))
			tc.run(t, mine, theirs)
			wantDiff(t, theirs, tc.want)
		})
	}
}
