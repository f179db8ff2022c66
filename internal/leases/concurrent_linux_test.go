package leases

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/leaktest"
	"github.com/cleat-cni/cleat/netstate"
)

// workerEnv makes the test binary a writer in the dataDir that it names, until it is killed.
const workerEnv = "CLEAT_LEASES_WORKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(workerEnv); dir != "" {
		fmt.Fprintln(os.Stderr, work(dir))
		os.Exit(1)
	}
	leaktest.Main(m)
}

const (
	crowd4 = "10.9.0.0/24 10.9.0.1-10.9.0.99 10.9.0.1"
	crowd6 = "fd00::/64 fd00::1-fd00::ff fd00::1"
)

func TestManyGoroutines(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, crowd4, crowd6)
	var (
		wg   sync.WaitGroup
		held sync.Map // address -> owner
	)
	for i := range 64 {
		wg.Go(func() {
			for n := range 8 {
				o := owner(fmt.Sprintf("c%d-%d", i, n))
				leases, err := s.Reserve(t.Context(), p, o, false)
				if err != nil {
					t.Error(err)
					return
				}
				for _, l := range leases {
					if by, taken := held.LoadOrStore(l.Addr, o); taken {
						t.Errorf("%s was given to %s and to %s", l.Addr, by, o)
					}
				}
				for _, l := range leases {
					held.Delete(l.Addr)
				}
				if err := s.Release(t.Context(), p, o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if left := leaseFiles(t, p); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	checkStore(t, p)
}

// work adds and deletes until it is killed, or until something is wrong.
func work(dir string) error {
	s, err := New(Config{StateDir: filepath.Join(dir, "state"), BootID: "boot-1", BootTime: boot})
	if err != nil {
		return err
	}
	p := netstate.Pool{Network: "net", Dir: filepath.Join(dir, "networks"), Sets: [][]netstate.Range{
		{{Subnet: netip.MustParsePrefix("10.9.0.0/24"), Start: netip.MustParseAddr("10.9.0.1"), End: netip.MustParseAddr("10.9.0.99")}},
		{{Subnet: netip.MustParsePrefix("fd00::/64"), Start: netip.MustParseAddr("fd00::1"), End: netip.MustParseAddr("fd00::ff")}},
	}}
	fmt.Println("ready")
	ctx := noDeadline()
	for i := 0; ; i++ {
		o := owner(fmt.Sprintf("w%d-%d", os.Getpid(), i))
		leases, err := s.Reserve(ctx, p, o, false)
		if errors.Is(err, netstate.ErrExhausted) {
			if _, err := s.Collect(ctx, p, nil, false); err != nil { // what killed writers left
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		held, err := s.Held(ctx, p, o)
		if err != nil {
			return err
		}
		// Another writer may have collected them; one that was killed meanwhile has freed the first, and only that.
		if len(held) != 0 && addresses(held) != addresses(leases) && addresses(held) != addresses(leases[1:]) {
			return fmt.Errorf("%s got %s but holds %s", o, addresses(leases), addresses(held))
		}
		if i%3 > 0 {
			if err := s.Release(ctx, p, o); err != nil {
				return err
			}
		}
	}
}

// TestKilledWriters kills writers at any moment, while others go on.
func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	p := netstate.Pool{Network: "net", Dir: filepath.Join(dir, "networks"), Sets: poolOf(t, crowd4, crowd6).Sets}
	s := newStore(t, nil)
	for round := range 12 {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { killWorker(t, dir) })
		}
		wg.Wait()
		// The first operation undoes what was half made.
		if err := s.Release(t.Context(), p, owner(fmt.Sprintf("r%d", round))); err != nil {
			t.Fatal(err)
		}
		checkStore(t, p)
		checkPairs(t, p)
	}
}

// killWorker starts a writer and kills it a moment after it began.
func killWorker(t *testing.T, dir string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	_, readErr := bufio.NewReader(out).ReadString('\n')
	<-time.After(time.Duration(rand.IntN(15_000)) * time.Microsecond)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); readErr != nil || stderr.Len() > 0 {
		t.Errorf("writer: %v, %v: %s", readErr, err, &stderr)
	}
}

// checkPairs proves that no ADD was half made. ADD takes the IPv4 address first, and DEL and GC free it first,
// so a DEL that was cut short, which the next one finishes, leaves an IPv6 address alone, and half an ADD would leave
// an IPv4 address alone.
func checkPairs(t *testing.T, p netstate.Pool) {
	t.Helper()
	has6 := map[string]bool{}
	files := leaseFiles(t, p)
	for _, file := range files {
		if name, id, _ := strings.Cut(file, "="); strings.Contains(name, ":") {
			has6[id] = true
		}
	}
	for _, file := range files {
		if name, id, _ := strings.Cut(file, "="); !strings.Contains(name, ":") && !has6[id] {
			t.Errorf("invariant: %q holds %s alone", id, name)
		}
	}
}

// TestHalfMade sets up what a writer leaves that is killed after each step of an ADD.
func TestHalfMade(t *testing.T) {
	link := func(p netstate.Pool, from, to string) error {
		return os.Link(filepath.Join(p.Dir, from), filepath.Join(p.Dir, to))
	}
	for _, test := range []struct {
		name  string
		steps func(p netstate.Pool) error
	}{
		{"file-empty", func(p netstate.Pool) error { return os.Truncate(filepath.Join(p.Dir, ".cleat/net/new"), 0) }},
		{"file", func(netstate.Pool) error { return nil }},
		{"one-of-two", func(p netstate.Pool) error { return link(p, ".cleat/net/new", "net/10.9.0.4") }},
		{"two-of-two", func(p netstate.Pool) error {
			return errors.Join(link(p, ".cleat/net/new", "net/10.9.0.4"), link(p, ".cleat/net/new", "net/fd00::4"))
		}},
		{"taking-over", func(p netstate.Pool) error {
			return errors.Join(link(p, ".cleat/net/new", "net/10.9.0.4"), link(p, ".cleat/net/new", ".cleat/net/swap"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, p := newStore(t, nil), poolOf(t, crowd4, crowd6)
			add(t, s, p, "c1")
			if err := os.WriteFile(filepath.Join(p.Dir, ".cleat/net/new"), []byte("killed\r\neth0"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := test.steps(p); err != nil {
				t.Fatal(err)
			}
			if held, err := s.Held(t.Context(), p, owner("killed")); err != nil || held != nil {
				t.Errorf("held %v, error %v", held, err)
			}
			if diff := cmp.Diff([]string{"10.9.0.2=c1\r\neth0", "fd00::2=c1\r\neth0"}, leaseFiles(t, p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkStore(t, p)
		})
	}
}
