package firewalld_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/filelock"
	"github.com/cleat-cni/cleat/internal/firewalld"
	"github.com/cleat-cni/cleat/internal/firewalld/firewalldtest"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/netstate"
)

// world is a firewalld with notes about it.
type world struct {
	*firewalldtest.Firewalld
	t     *testing.T
	zones *firewalld.Zones
	cfg   firewalld.Config
}

func newWorld(t *testing.T) *world {
	cfg := firewalld.Config{Bus: firewalldtest.StartBus(t), Dir: filepath.Join(t.TempDir(), "firewalld")}
	return &world{Firewalld: firewalldtest.Start(t, cfg.Bus), t: t, zones: firewalld.New(cfg), cfg: cfg}
}

func owner(id string) netstate.Owner {
	return netstate.Owner{Network: "pods", ContainerID: id, IfName: "eth0"}
}

// trusted are addresses as sources of the zone.
func trusted(addrs ...string) []netstate.Source {
	var list []netstate.Source
	for _, a := range addrs {
		addr := netip.MustParseAddr(a)
		list = append(list, netstate.Source{Zone: "trusted", Prefix: netip.PrefixFrom(addr, addr.BitLen())})
	}
	return list
}

func (w *world) bind(o netstate.Owner, list []netstate.Source) []firewalld.Bound {
	w.t.Helper()
	done, err := w.zones.Bind(w.t.Context(), o, list)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

func (w *world) remove(o netstate.Owner, named ...netstate.Source) {
	w.t.Helper()
	if err := w.zones.Remove(w.t.Context(), o, named); err != nil {
		w.t.Fatal(err)
	}
}

// notes are the files in the folder but for the lock.
func (w *world) notes() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.cfg.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

// expect fails the test unless these are the zone's sources and there are that many notes.
func (w *world) expect(notes int, sources ...string) {
	w.t.Helper()
	if got := w.Sources("trusted"); !slices.Equal(got, sources) {
		w.t.Errorf("sources %v, want %v", got, sources)
	}
	if got := w.notes(); len(got) != notes {
		w.t.Errorf("notes %v, want %d", got, notes)
	}
}

func TestBindAndRemove(t *testing.T) {
	w := newWorld(t)
	both := trusted("10.88.0.5", "fd00:88::5")
	w.bind(owner("a"), both)
	w.expect(2, "10.88.0.5/32", "fd00:88::5/128")
	w.bind(owner("a"), both)
	w.expect(2, "10.88.0.5/32", "fd00:88::5/128")
	w.remove(owner("b"), netstate.Source{})
	w.remove(owner("b"), both...) // they are another's
	w.expect(2, "10.88.0.5/32", "fd00:88::5/128")
	w.remove(owner("a"), netstate.Source{Zone: "trusted"}) // by what is noted alone
	w.expect(0)
	w.Calls()
	w.remove(owner("a"), netstate.Source{})
	if calls := w.Calls(); len(calls) > 0 {
		t.Errorf("firewalld is called for nothing: %v", calls)
	}
}

// TestFoundBefore: what somebody else bound before stays, unless it went in between and was bound anew.
func TestFoundBefore(t *testing.T) {
	w := newWorld(t)
	w.Add("trusted", "10.88.0.5/32")
	list := trusted("10.88.0.5")
	w.bind(owner("a"), list)
	w.bind(owner("b"), list)
	w.remove(owner("a"), list...)
	w.remove(owner("b"), list...)
	w.expect(0, "10.88.0.5/32")

	done := w.bind(owner("a"), list)
	if err := w.zones.Undo(t.Context(), owner("a"), done); err != nil {
		t.Fatal(err)
	}
	w.expect(0, "10.88.0.5/32")

	w.bind(owner("a"), list)
	w.Reload()
	w.bind(owner("b"), list)
	w.expect(2, "10.88.0.5/32")
	w.remove(owner("a"), list...)
	w.expect(1, "10.88.0.5/32")
	w.remove(owner("b"), list...)
	w.expect(0)
}

// TestReferenceBound: what nobody noted and is named goes, as the reference plugin's DEL would have it.
func TestReferenceBound(t *testing.T) {
	w := newWorld(t)
	w.Add("trusted", "10.88.0.5/32")
	w.Add("internal", "10.88.0.6/32")
	w.remove(owner("a"), trusted("10.88.0.5", "10.88.0.6", "10.88.0.7")...)
	w.expect(0)
	if got := w.Sources("internal"); len(got) != 1 {
		t.Errorf("a source of another zone is gone: %v", got)
	}
}

func TestUndo(t *testing.T) {
	w := newWorld(t)
	w.Add("internal", "10.88.0.7/32")
	done, err := w.zones.Bind(t.Context(), owner("a"), trusted("10.88.0.5", "10.88.0.6", "10.88.0.7", "10.88.0.8"))
	about, ok := errors.AsType[*netstate.ObjectError](err)
	if !ok || about.Object != trusted("10.88.0.7")[0].Key() {
		t.Errorf("error %v, want one about 10.88.0.7", err)
	}
	w.expect(3, "10.88.0.5/32", "10.88.0.6/32")
	w.bind(owner("b"), trusted("10.88.0.6"))
	if err := w.zones.Undo(t.Context(), owner("a"), done); err != nil {
		t.Fatal(err)
	}
	w.expect(1, "10.88.0.6/32")
	// An Undo of what had been noted before takes the source alone.
	w.Reload()
	done = w.bind(owner("b"), trusted("10.88.0.6"))
	if err := w.zones.Undo(t.Context(), owner("b"), done); err != nil {
		t.Fatal(err)
	}
	w.expect(1)
}

func TestWrongZone(t *testing.T) {
	w := newWorld(t)
	list := []netstate.Source{{Zone: "nowhere", Prefix: netip.MustParsePrefix("10.88.0.5/32")}}
	if _, err := w.zones.Bind(t.Context(), owner("a"), list); !errors.Is(err, netstate.ErrNotExist) {
		t.Errorf("bind: %v, want ErrNotExist", err)
	}
	w.expect(0)
	if err := w.zones.Supports(t.Context(), list); !errors.Is(err, netstate.ErrNotExist) {
		t.Errorf("supports: %v, want ErrNotExist", err)
	}
	if err := w.zones.Supports(t.Context(), trusted("10.88.0.5")); err != nil {
		t.Errorf("supports: %v", err)
	}
	missing, err := w.zones.Missing(t.Context(), list)
	if err != nil || len(missing) != 1 {
		t.Errorf("missing %v, %v", missing, err)
	}
	w.remove(owner("a"), list...)
}

// TestAway: a firewalld that is not there has nothing, and what it lost at its end is bound again.
func TestAway(t *testing.T) {
	w := newWorld(t)
	list := trusted("10.88.0.5", "fd00:88::5")
	w.bind(owner("a"), list)
	w.bind(owner("b"), trusted("10.88.0.6"))
	w.Stop()
	if there, err := w.zones.Answers(t.Context()); there || err != nil {
		t.Errorf("it answers: %v, %v", there, err)
	}
	if missing, err := w.zones.Missing(t.Context(), list); len(missing) != 2 || err != nil {
		t.Errorf("missing %v, %v", missing, err)
	}
	if _, err := w.zones.Bind(t.Context(), owner("c"), list); err == nil {
		t.Error("sources are bound by nobody")
	}
	if err := w.zones.Supports(t.Context(), list); err == nil {
		t.Error("sources could be bound by nobody")
	}
	w.remove(owner("b"), trusted("10.88.0.6")...)
	if got := w.notes(); len(got) != 2 {
		t.Errorf("notes %v, want those of one owner", got)
	}
	w.Restart()
	if there, err := w.zones.Answers(t.Context()); !there || err != nil {
		t.Errorf("it answers: %v, %v", there, err)
	}
	w.expect(2)
	w.bind(owner("a"), list)
	w.expect(2, "10.88.0.5/32", "fd00:88::5/128")
	w.remove(owner("a"), list...)
	w.expect(0)
}

// TestCrash: a firewalld that ends instead of answering fails an ADD, of which nothing stays, and no removal.
func TestCrash(t *testing.T) {
	w := newWorld(t)
	crashAt := func(method string) {
		w.Restart()
		w.Before(func(m string, _ []string) {
			if m == method {
				w.Crash()
			}
		})
	}
	list := trusted("10.88.0.5", "fd00:88::5")
	for _, method := range []string{"querySource", "addSource"} {
		crashAt(method)
		done, err := w.zones.Bind(t.Context(), owner("a"), list)
		if err == nil {
			t.Errorf("%s: no error", method)
		}
		if len(done) > 0 {
			if err := w.zones.Undo(t.Context(), owner("a"), done); err != nil {
				t.Errorf("%s: undo: %v", method, err)
			}
		}
		w.Restart()
		w.expect(0)
	}
	crashAt("removeSource")
	w.bind(owner("a"), list)
	w.remove(owner("a"), list...)
	w.Restart()
	w.expect(0)
	w.bind(owner("a"), list)
	crashAt("querySource")
	if missing, err := w.zones.Missing(t.Context(), list); len(missing) != 2 || err != nil {
		t.Errorf("missing %v, %v", missing, err)
	}
}

// TestDeadline: a firewalld that does not answer is waited for as long as the context lasts, and so is the lock.
func TestDeadline(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	defer close(hold)
	w.Before(func(string, []string) { <-hold })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.zones.Bind(ctx, owner("a"), trusted("10.88.0.5")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("bind: %v, want DeadlineExceeded", err)
	}
	lock, err := filelock.Acquire(t.Context(), filepath.Join(w.cfg.Dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.zones.Remove(late, owner("a"), trusted("10.88.0.5")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("remove: %v, want DeadlineExceeded", err)
	}
}

// TestKilled kills a process at each of its calls of firewalld, which takes effect all the same. Nothing is left then that GC does not
// find, and nobody is kept waiting.
func TestKilled(t *testing.T) {
	const variable = "CLEAT_TEST_BIND"
	if text := os.Getenv(variable); text != "" {
		bus, dir, _ := strings.Cut(text, " ")
		w := &world{t: t, zones: firewalld.New(firewalld.Config{Bus: bus, Dir: dir})}
		list := trusted("10.88.0.5", "fd00:88::5")
		w.bind(owner("a"), list)
		w.remove(owner("a"), list...)
		return
	}
	w := newWorld(t)
	const calls = 6
	for at := 1; at <= calls+1; at++ {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), variable+"="+w.cfg.Bus+" "+w.cfg.Dir)
		started := make(chan struct{})
		n := 0
		w.Before(func(string, []string) {
			<-started
			if n++; n == at {
				cmd.Process.Kill()
				cmd.Process.Wait()
			}
		})
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		err := cmd.Wait()
		w.Before(nil)
		if killed := err != nil; killed != (at <= calls) {
			t.Errorf("at call %d of %v: %v", at, w.Calls(), err)
		}
		w.bind(owner("b"), trusted("fd00:88::5"))
		w.remove(owner("b"), trusted("fd00:88::5")...)
		if _, err := w.zones.Collect(t.Context(), "pods", nil, false); err != nil {
			t.Errorf("at call %d: collect: %v", at, err)
		}
		w.expect(0)
	}
}

// TestAtOnce: owners that share a source bind and remove it at once, and each has it as long as it wants.
func TestAtOnce(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			o, list := owner(fmt.Sprint(i)), trusted("10.88.0.5", fmt.Sprintf("10.88.1.%d", i))
			for range 5 {
				if _, err := w.zones.Bind(t.Context(), o, list); err != nil {
					t.Error(err)
				}
				if missing, err := w.zones.Missing(t.Context(), list); err != nil || len(missing) > 0 {
					t.Errorf("missing %v, %v", missing, err)
				}
				if err := w.zones.Remove(t.Context(), o, list); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.expect(0)
}

// TestNoBus: without a bus nothing is made on disk, and nothing is missed.
func TestNoBus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "firewalld")
	z := firewalld.New(firewalld.Config{Bus: "unix:path=" + filepath.Join(t.TempDir(), "none"), Dir: dir})
	if there, err := z.Answers(t.Context()); there || err != nil {
		t.Errorf("it answers: %v, %v", there, err)
	}
	if err := z.Remove(t.Context(), owner("a"), trusted("10.88.0.5")); err != nil {
		t.Error(err)
	}
	if freed, err := z.Collect(t.Context(), "pods", nil, false); len(freed) > 0 || err != nil {
		t.Errorf("collected %v, %v", freed, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of notes: %v", err)
	}
}

// TestPlanted: of a folder that others can write to, or a link to one in its place, nothing is believed, and a link in place of a note is not followed.
func TestPlanted(t *testing.T) {
	w := newWorld(t)
	w.bind(owner("a"), trusted("10.88.0.5"))
	elsewhere := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(elsewhere, []byte(owner("a").Comment(1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(w.cfg.Dir, w.notes()[0])
	if err := errors.Join(os.Remove(note), os.Symlink(elsewhere, note)); err != nil {
		t.Fatal(err)
	}
	freed, err := w.zones.Collect(t.Context(), "pods", nil, true)
	if err != nil || len(freed) != 1 || freed[0].Owner.ContainerID != "" {
		t.Errorf("a link is followed: %v, %v", freed, err)
	}
	if err := os.Chmod(w.cfg.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(w.cfg.Dir, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{w.cfg.Dir, link} {
		z := firewalld.New(firewalld.Config{Bus: w.cfg.Bus, Dir: dir})
		if _, err := z.Bind(t.Context(), owner("b"), trusted("10.88.0.6")); !errors.Is(err, ownfile.ErrForeign) {
			t.Errorf("bind: %v, want ErrForeign", err)
		}
		if err := z.Remove(t.Context(), owner("a"), nil); !errors.Is(err, ownfile.ErrForeign) {
			t.Errorf("remove: %v, want ErrForeign", err)
		}
	}
	w.expect(1, "10.88.0.5/32")
}

func BenchmarkAnswersNoBus(b *testing.B) {
	z := firewalld.New(firewalld.Config{Bus: "unix:path=" + filepath.Join(b.TempDir(), "none")})
	for b.Loop() {
		if there, err := z.Answers(b.Context()); there || err != nil {
			b.Fatal(there, err)
		}
	}
}

func BenchmarkAnswers(b *testing.B) {
	bus := firewalldtest.StartBus(b)
	firewalldtest.Start(b, bus)
	z := firewalld.New(firewalld.Config{Bus: bus})
	for b.Loop() {
		if there, err := z.Answers(b.Context()); !there || err != nil {
			b.Fatal(there, err)
		}
	}
}

func TestCollect(t *testing.T) {
	w := newWorld(t)
	other := netstate.Owner{Network: "others", ContainerID: "x", IfName: "eth0"}
	w.Add("trusted", "10.88.0.9/32")
	w.bind(owner("a"), trusted("10.88.0.5", "fd00:88::5"))
	w.bind(owner("b"), trusted("10.88.0.6", "10.88.0.5", "10.88.0.9"))
	w.bind(owner("c"), trusted("10.88.0.7"))
	w.bind(other, trusted("10.99.0.5"))
	keep := map[string]bool{owner("c").Mark(): true}
	line := func(id, source string) netstate.Freed {
		o := owner(id)
		return netstate.Freed{Object: "host firewalld zone trusted source " + source + " owner " + o.Mark(), Mark: o.Mark(), Owner: o}
	}
	want := []netstate.Freed{line("a", "10.88.0.5/32"), line("a", "fd00:88::5/128"), line("b", "10.88.0.5/32"), line("b", "10.88.0.6/32")}
	for _, dryRun := range []bool{true, false} {
		freed, err := w.zones.Collect(t.Context(), "pods", keep, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(freed, func(a, b netstate.Freed) int {
			return strings.Compare(a.Owner.ContainerID+a.Object, b.Owner.ContainerID+b.Object)
		})
		if diff := cmp.Diff(want, freed); diff != "" {
			t.Errorf("dry run %v: freed (-want +got)\n%s", dryRun, diff)
		}
		if dryRun {
			w.expect(7, "10.88.0.5/32", "10.88.0.6/32", "10.88.0.7/32", "10.88.0.9/32", "10.99.0.5/32", "fd00:88::5/128")
		}
	}
	w.expect(2, "10.88.0.7/32", "10.88.0.9/32", "10.99.0.5/32")
}
