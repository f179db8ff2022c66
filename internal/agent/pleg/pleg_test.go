package pleg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

var errBroken = errors.New("broken")

// fakeRuntime knows pods by the states of their parts: "sandbox-1" is a sandbox, everything else a container.
type fakeRuntime struct {
	mu                  sync.Mutex
	pods                map[types.UID]map[string]container.State
	ips                 map[types.UID]string
	listErr, statusErr  error
	lists, statusLookup int
}

func newFake() *fakeRuntime {
	return &fakeRuntime{pods: map[types.UID]map[string]container.State{}, ips: map[types.UID]string{}}
}

// put sets the parts of a pod: "sandbox-1 running", …; none removes it.
func (f *fakeRuntime) put(uid types.UID, parts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, uid)
	for _, p := range parts {
		id, state, _ := strings.Cut(p, " ")
		if f.pods[uid] == nil {
			f.pods[uid] = map[string]container.State{}
		}
		f.pods[uid][id] = container.State(state)
	}
}

func (f *fakeRuntime) breakDown(list, status error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listErr, f.statusErr = list, status
}

func (f *fakeRuntime) Pods(context.Context) ([]container.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	var list []container.Pod
	for uid, parts := range f.pods {
		p := container.Pod{UID: uid}
		for id, state := range parts {
			if strings.HasPrefix(id, "sandbox") {
				p.Sandboxes = append(p.Sandboxes, container.Item{ID: id, State: state})
			} else {
				p.Containers = append(p.Containers, container.Item{ID: id, State: state})
			}
		}
		list = append(list, p)
	}
	return list, f.listErr
}

func (f *fakeRuntime) PodStatus(_ context.Context, uid types.UID) (*container.PodStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statusLookup++
	if f.statusErr != nil {
		return nil, f.statusErr
	}
	s := &container.PodStatus{UID: uid}
	for id, state := range f.pods[uid] {
		if strings.HasPrefix(id, "sandbox") {
			s.Sandboxes = append(s.Sandboxes, container.SandboxStatus{ID: id, State: state})
		} else {
			s.Containers = append(s.Containers, container.Status{ID: id, State: state})
		}
	}
	if ip := f.ips[uid]; ip != "" {
		s.IPs = []netip.Addr{netip.MustParseAddr(ip)}
	}
	return s, nil
}

// drain returns the events that are there, as text.
func drain(g *Generic) string {
	var list []string
	for {
		select {
		case e := <-g.Events():
			list = append(list, strings.TrimSpace(fmt.Sprint(e.ID, " ", e.Type, " ", e.Data)))
		default:
			return strings.Join(list, ", ")
		}
	}
}

// start runs a PLEG over a fake until the test is over.
func start(t *testing.T, f *fakeRuntime) *Generic {
	g := New(Config{Runtime: f, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return g
}

func TestEvents(t *testing.T) {
	tests := []struct {
		name          string
		before, after []string
		want          string
	}{
		{"same", []string{"sandbox-1 running", "c running"}, []string{"sandbox-1 running", "c running"}, ""},
		{"started", []string{"sandbox-1 running"}, []string{"sandbox-1 running", "c running"}, "u ContainerStarted c"},
		{"new-pod", nil, []string{"sandbox-1 running", "c running"}, "u ContainerStarted c, u ContainerStarted sandbox-1"},
		{"died", []string{"c running"}, []string{"c exited"}, "u ContainerDied c"},
		{"pause-died", []string{"sandbox-1 running"}, []string{"sandbox-1 exited"}, "u ContainerDied sandbox-1"},
		{"came-and-died", nil, []string{"c exited"}, "u ContainerDied c"},
		{"removed", []string{"sandbox-1 running", "c exited"}, []string{"sandbox-1 running"}, "u ContainerRemoved c"},
		{"died-and-removed", []string{"sandbox-1 running", "c running"}, []string{"sandbox-1 running"}, "u ContainerDied c, u ContainerRemoved c"},
		{"pod-gone", []string{"sandbox-1 exited", "c exited"}, nil, "u ContainerRemoved c, u ContainerRemoved sandbox-1"},
		{"unclear-is-told-nobody", []string{"c running"}, []string{"c unknown"}, ""},
		{"made", nil, []string{"c created"}, ""},
		{"made-then-started", []string{"c created"}, []string{"c running"}, "u ContainerStarted c"},
		{"runs-again", []string{"c exited"}, []string{"c running"}, "u ContainerStarted c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.put("u", tt.before...)
				g := start(t, f)
				synctest.Wait()
				drain(g)
				f.put("u", tt.after...)
				time.Sleep(time.Second)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, drain(g)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				status, err := g.Cache().Get("u")
				if err != nil || len(status.Sandboxes)+len(status.Containers) != len(tt.after) {
					t.Errorf("cache: %+v, %v; want %v", status, err, tt.after)
				}
			})
		})
	}
}

func TestStatusIsAskedOnlyOfWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put("a", "sandbox-1 running")
		f.put("b", "sandbox-2 running")
		start(t, f)
		time.Sleep(10500 * time.Millisecond)
		synctest.Wait()
		if f.lists != 11 || f.statusLookup != 2 {
			t.Errorf("%d lists and %d questions for a status, want 11 and 2", f.lists, f.statusLookup)
		}
	})
}

func TestErrorIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put("u", "sandbox-1 running")
		f.ips["u"] = "10.1.0.2"
		g := start(t, f)
		synctest.Wait()
		drain(g)

		f.put("u", "sandbox-1 exited")
		delete(f.ips, "u")
		f.breakDown(nil, errBroken)
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := g.Cache().Get("u"); !errors.Is(err, errBroken) {
			t.Errorf("cache: %v, want the error", err)
		}
		if got := drain(g); got != "" {
			t.Errorf("events in spite of the error: %s", got)
		}

		f.put("u", "sandbox-1 running") // as it was before, so there is no difference to tell
		f.breakDown(nil, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := drain(g); got != "u PodSync" {
			t.Errorf("events %q, want a PodSync", got)
		}
		if _, err := g.Cache().Get("u"); err != nil {
			t.Errorf("cache: %v", err)
		}
	})
}

func TestAddressesStayWhenThePodHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put("u", "sandbox-1 running")
		f.ips["u"] = "10.1.0.2"
		g := start(t, f)
		synctest.Wait()
		delete(f.ips, "u")
		f.put("u", "sandbox-1 exited")
		f.breakDown(nil, errBroken) // not even an error in between loses them
		time.Sleep(time.Second)
		synctest.Wait()
		f.breakDown(nil, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		status, err := g.Cache().Get("u")
		if err != nil || len(status.IPs) != 1 || status.IPs[0].String() != "10.1.0.2" {
			t.Errorf("%+v, %v; want the address that it had", status, err)
		}
		f.put("u", "sandbox-1 exited", "sandbox-2 running") // a new sandbox has its own, or none
		time.Sleep(time.Second)
		synctest.Wait()
		if status, _ := g.Cache().Get("u"); len(status.IPs) != 0 {
			t.Errorf("the new sandbox has the old address: %v", status.IPs)
		}
	})
}

func TestGetNewerThanWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put("u", "sandbox-1 running")
		g := start(t, f)
		time.Sleep(500 * time.Millisecond)
		acted := time.Now()
		for _, uid := range []types.UID{"u", "nobody"} {
			status, err := g.Cache().GetNewerThan(t.Context(), uid, acted)
			if waited := time.Since(acted); err != nil || waited <= 0 || waited > time.Second || status.UID != uid {
				t.Errorf("%s after %v: %+v, %v", uid, waited, status, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := g.Cache().GetNewerThan(ctx, "u", time.Now().Add(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's end", err)
		}
		if len(g.cache.waiters) != 0 {
			t.Errorf("waiters left: %v", g.cache.waiters)
		}
	})
}

func TestRequestRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		g := start(t, f)
		time.Sleep(500 * time.Millisecond)
		acted := time.Now()
		f.put("u", "sandbox-1 running")
		time.Sleep(time.Millisecond)
		g.RequestRelist("u")
		g.RequestRelist("u") // is answered by the same look
		g.RequestRelist("nobody")
		status, err := g.Cache().GetNewerThan(t.Context(), "u", acted)
		if waited := time.Since(acted); err != nil || waited > 10*time.Millisecond || len(status.Sandboxes) != 1 {
			t.Errorf("after %v: %+v, %v", waited, status, err)
		}
		if _, err := g.Cache().GetNewerThan(t.Context(), "nobody", acted); err != nil || time.Since(acted) > 10*time.Millisecond {
			t.Errorf("a pod that is not there, after %v: %v", time.Since(acted), err)
		}
		synctest.Wait()
		if got := drain(g); got != "u ContainerStarted sandbox-1" {
			t.Errorf("events %q", got)
		}
		if f.lists != 1 {
			t.Errorf("%d lists, want that of the start alone", f.lists)
		}
		f.breakDown(nil, errBroken)
		g.RequestRelist("u")
		synctest.Wait()
		if _, err := g.Cache().Get("u"); err != nil {
			t.Errorf("an error on demand is kept: %v", err)
		}
		f.breakDown(nil, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := drain(g); got != "u PodSync" {
			t.Errorf("events %q after the error, want a PodSync", got)
		}
		if len(g.reinspect) != 0 || len(g.cache.observed) != 0 {
			t.Errorf("left over: %v, %v", g.reinspect, g.cache.observed)
		}
	})
}

func TestHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.breakDown(errBroken, nil)
		g := start(t, f)
		synctest.Wait()
		if g.Healthy() == nil {
			t.Error("healthy before the first list")
		}
		f.breakDown(nil, nil)
		time.Sleep(2 * time.Second)
		if err := g.Healthy(); err != nil {
			t.Errorf("after a list: %v", err)
		}
		time.Sleep(time.Millisecond)
		f.breakDown(errBroken, nil)
		acted := time.Now()
		time.Sleep(3*time.Minute - 2*time.Second) // a relist began up to a second before
		if err := g.Healthy(); err != nil {
			t.Errorf("before three minutes: %v", err)
		}
		time.Sleep(4 * time.Second)
		if g.Healthy() == nil {
			t.Error("healthy without a list for three minutes")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Cache().GetNewerThan(ctx, "u", acted); err == nil {
			t.Error("the cache calls itself new without a list")
		}
	})
}

func TestFullChannelDropsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range eventCapacity + 5 {
			f.put(types.UID(fmt.Sprint(i)), "sandbox-1 running")
		}
		g := start(t, f)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(g.events) != eventCapacity {
			t.Errorf("%d events", len(g.events))
		}
		if status, _ := g.Cache().Get("7"); len(status.Sandboxes) != 1 {
			t.Errorf("the cache lacks a pod: %+v", status)
		}
	})
}
