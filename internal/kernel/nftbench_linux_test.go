package kernel

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

// BenchmarkElements adds and removes an attachment's two elements beside those of others.
func BenchmarkElements(b *testing.B) {
	for _, others := range []int{0, 5000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			r := openTestRuleset(b, sandbox.Namespace(b))
			mustApply(b, r, testState(0))
			for i := range others / 2 {
				mustApply(b, r, testState(1+i, 1+i))
			}
			s := testState(40000, 40000)
			b.Run("add+undo", func(b *testing.B) {
				for b.Loop() {
					if err := mustApply(b, r, s)(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("add+remove", func(b *testing.B) {
				for b.Loop() {
					mustApply(b, r, s)
					if err := r.remove(b.Context(), s, false); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("add", func(b *testing.B) {
				var undo func(context.Context) error
				for b.Loop() {
					undo = mustApply(b, r, s)
					b.StopTimer()
					if err := undo(b.Context()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
			mustApply(b, r, s)
			b.Run("diff", func(b *testing.B) {
				for b.Loop() {
					wantDiff(b, r, s)
				}
			})
		})
	}
}
