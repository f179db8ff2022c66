package leaktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

// kept is what a test keeps on the heap.
var kept []byte

func TestRun(t *testing.T) {
	block := make(chan struct{})
	for _, tc := range []struct {
		name  string
		leave func(t *testing.T) (clear func())
		want  []string // what is left begins with
	}{
		{"nothing", func(*testing.T) func() { return func() {} }, nil},
		{"what-stays", func(t *testing.T) func() {
			sandbox.Require(t)
			name := "/run/netns/stays"
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return func() { os.Remove(name) }
		}, nil},
		{"descriptor", func(t *testing.T) func() {
			f, err := os.Open("/dev/null")
			if err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		}, []string{"descriptor "}},
		{"goroutine", func(*testing.T) func() {
			go func() { <-block }()
			return func() { block <- struct{}{} }
		}, []string{"goroutine\n"}},
		{"thread", func(t *testing.T) func() {
			ns := sandbox.Namespace(t)
			there, ended := make(chan struct{}), make(chan error)
			go func() {
				ended <- ns.Do(func() error {
					close(there)
					<-block
					return nil
				})
			}()
			<-there
			return func() {
				block <- struct{}{}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}, []string{"descriptor ", "descriptor ", "goroutine\n", "thread "}},
		{"process", func(t *testing.T) func() {
			cmd := exec.Command("true")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return func() { _ = cmd.Wait() } // how it ended is no matter
		}, []string{"descriptor ", "process "}},
		{"memory", func(*testing.T) func() {
			kept = make([]byte, 2*growth)
			return func() { kept = nil }
		}, []string{"memory: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var clear func()
			code, left := run(func() int {
				clear = tc.leave(t)
				return 3
			}, 100*time.Millisecond, []string{"file /run/netns/stays"})
			clear()
			if code != 3 {
				t.Errorf("status %d", code)
			}
			// The runtime may take one goroutine more to keep the main thread where it is.
			left = slices.CompactFunc(left, func(a, b string) bool {
				return strings.HasPrefix(a, "goroutine\n") && strings.HasPrefix(b, "goroutine\n")
			})
			if len(left) != len(tc.want) {
				t.Fatalf("left %q", left)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(left[i], want) {
					t.Errorf("left %q, want %s…", left[i], want)
				}
			}
		})
	}
}

func TestEmptied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "y"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if left := emptied(dir); !slices.Equal(left, []string{"file " + dir + "/y"}) {
		t.Errorf("left %q", left)
	}
	if left := emptied(dir); left != nil {
		t.Errorf("left %q of what is gone", left)
	}
}
