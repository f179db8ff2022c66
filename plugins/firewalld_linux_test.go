package plugins_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/firewalld"
	"github.com/cleat-cni/cleat/internal/firewalld/firewalldtest"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// zonedMachine is a machine on which firewalld runs.
type zonedMachine struct {
	*machine
	*firewalldtest.Firewalld
	notes string // folder
}

func newZonedMachine(t *testing.T) *zonedMachine {
	z := &zonedMachine{machine: newMachine(t), notes: filepath.Join(t.TempDir(), "firewalld")}
	bus := firewalldtest.StartBus(t)
	z.Firewalld = firewalldtest.Start(t, bus)
	k, err := kernel.New(kernel.Config{Host: z.Host, Firewalld: firewalld.Config{Bus: bus, Dir: z.notes}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	z.kernel, z.node = k, newNode(planned.Wrap[*kernel.Session](k))
	return z
}

// empty fails the test unless nobody has anything in firewalld.
func (z *zonedMachine) empty(t *testing.T, when string) {
	t.Helper()
	if got := z.Sources("trusted"); len(got) > 0 {
		t.Errorf("%s: sources %v", when, got)
	}
	entries, err := os.ReadDir(z.notes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" {
			t.Errorf("%s: note %s is left", when, e.Name())
		}
	}
}

// sources are the pod's addresses as firewalld has them.
func (p *pod) sources() []string {
	return []string{p.address(false).String() + "/32", p.address(true).String() + "/128"}
}

// TestFirewalldLife: whoever knows what at DEL, or GC, nothing is left in firewalld.
func TestFirewalldLife(t *testing.T) {
	z := newZonedMachine(t)
	for _, options := range []string{"", `,"backend":"firewalld","ingressPolicy":"same-bridge"`} {
		for i, forget := range []func(*pod){
			func(*pod) {},
			func(p *pod) { p.netns = "" },
			func(p *pod) { p.prev = nil },
			func(p *pod) { p.netns, p.prev = "", nil },
			// A configuration that can't be read any more.
			func(p *pod) {
				p.network, p.prev = strings.Replace(p.network, `"type":"firewall"`, `"type":"firewall","firewalldZone":7`, 1), nil
			},
		} {
			p := z.attach(z.newPod(2, walled(1, options)))
			if got := z.Sources("trusted"); !slices.Equal(got, p.sources()) {
				t.Fatalf("sources %v, want %v", got, p.sources())
			}
			if found := z.check(t, p.attachment); found != "" {
				t.Errorf("CHECK: %s", found)
			}
			forget(p)
			z.del(t, p.attachment)
			z.del(t, p.attachment)
			z.empty(t, "DEL "+string(rune('0'+i)))
		}
		kept, lost := z.attach(z.newPod(3, walled(1, options))), z.attach(z.newPod(4, walled(1, options)))
		valid := []netstate.Owner{{Network: "walled1", ContainerID: "pod3", IfName: "eth0"}}
		freed, err := z.kernel.Collect(t.Context(), "walled1", valid, false)
		if err != nil || !slices.ContainsFunc(freed, func(f netstate.Freed) bool { return strings.Contains(f.Object, "source "+lost.sources()[0]) }) {
			t.Errorf("collected %v, %v", freed, err)
		}
		if got := z.Sources("trusted"); !slices.Equal(got, kept.sources()) {
			t.Errorf("sources after GC %v, want %v", got, kept.sources())
		}
		z.del(t, kept.attachment)
		z.empty(t, "GC")
	}
}

// TestB060FirewalldReload: CHECK misses what a reload or a new start of firewalld takes, and repair puts it back without touching another pod.
func TestB060FirewalldReload(t *testing.T) {
	z := newZonedMachine(t)
	p, other := z.attach(z.newPod(2, walled(1, ""))), z.attach(z.newPod(3, walled(1, "")))
	for name, harm := range map[string]func(){"reload": z.Reload, "restart": z.Restart} {
		harm()
		found := z.check(t, p.attachment)
		for _, s := range p.sources() {
			if !strings.Contains(found, "missing: host firewalld zone trusted source "+s) {
				t.Errorf("%s: CHECK finds %q", name, found)
			}
		}
		if wrong, err := z.engine.Repair(t.Context(), p.steps(t, cni.VerbCheck)); err != nil || len(wrong) != 2 {
			t.Errorf("%s: repair: %v, %v", name, wrong, err)
		}
		if found := z.check(t, p.attachment); found != "" {
			t.Errorf("%s: after the repair: %s", name, found)
		}
		if got := z.Sources("trusted"); !slices.Equal(got, p.sources()) {
			t.Errorf("%s: sources %v, want %v", name, got, p.sources())
		}
	}
	// One that was not there at ADD, and is now.
	z.Stop()
	late := z.attach(z.newPod(4, walled(1, "")))
	if found := z.check(t, late.attachment); found != "" {
		t.Errorf("without firewalld: %s", found)
	}
	z.Restart()
	for _, p := range []*pod{late, p, other} {
		if _, err := z.engine.Repair(t.Context(), p.steps(t, cni.VerbCheck)); err != nil {
			t.Error(err)
		}
		z.del(t, p.attachment)
	}
	z.empty(t, "the end")
}

// TestFirewalldAskedFor: what asks for firewalld is refused without it, with what to do, and removed all the same.
func TestFirewalldAskedFor(t *testing.T) {
	z := newZonedMachine(t)
	network := walled(1, `,"backend":"firewalld"`)
	p := z.attach(z.newPod(2, network))
	status := func(network string) *cni.Error {
		t.Helper()
		steps := (&attachment{network: network, pod: 9, netns: p.netns}).steps(t, cni.VerbStatus)
		err := z.engine.Status(t.Context(), steps[len(steps)-1])
		if err == nil {
			return &cni.Error{}
		}
		return cni.AsError(err)
	}
	if e := status(network); e.Code != 0 {
		t.Errorf("STATUS with firewalld: %v", e)
	}
	nowhere := walled(1, `,"backend":"firewalld","firewalldZone":"nowhere"`)
	if e := status(nowhere); e.Code != cni.CodeNotAvailable || !strings.Contains(e.Hint, "--get-zones") {
		t.Errorf("STATUS of an unknown zone: %v, hint %q", e, e.Hint)
	}
	rules := z.made()
	if err := z.tryAdd(t, z.newPod(3, nowhere).attachment); err == nil {
		t.Error("ADD to an unknown zone: no error")
	}
	z.Add("internal", "10.81.0.3/32")
	if err := z.tryAdd(t, z.newPod(3, network).attachment); err == nil || !strings.Contains(err.Error(), "zone internal of firewalld has the source") {
		t.Errorf("ADD of an address in another zone: %v", err)
	}
	if diff := cmp.Diff(rules, z.made()); diff != "" {
		t.Errorf("a failed ADD left something (-before +after):\n%s", diff)
	}
	if got := z.Sources("trusted"); !slices.Equal(got, p.sources()) {
		t.Errorf("sources %v, want %v", got, p.sources())
	}
	z.Stop()
	if e := status(network); e.Code != cni.CodeNotAvailable || !strings.Contains(e.Hint, "systemctl start firewalld") {
		t.Errorf("STATUS without firewalld: %v, hint %q", e, e.Hint)
	}
	if e := status(walled(1, "")); e.Code != 0 {
		t.Errorf("STATUS of what does not ask for it: %v", e)
	}
	err := z.tryAdd(t, z.newPod(3, network).attachment)
	if e := cni.AsError(err); err == nil || e.Code != cni.CodeTryAgain || !strings.Contains(e.Error(), "firewalld does not answer") {
		t.Errorf("ADD without firewalld: %v", err)
	}
	z.del(t, p.attachment)
	z.empty(t, "DEL without firewalld")
}

// TestFirewalldNotAsked: with another backend nobody speaks to firewalld.
func TestFirewalldNotAsked(t *testing.T) {
	z := newZonedMachine(t)
	z.Calls()
	p := z.attach(z.newPod(2, walled(1, `,"backend":"nftables"`)))
	if found := z.check(t, p.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
	z.del(t, p.attachment)
	if calls := z.Calls(); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
	z.empty(t, "DEL")
}

// TestFirewalldInMemory: the kernel in memory does the same.
func TestFirewalldInMemory(t *testing.T) {
	k := kerneltest.NewMemory(kerneltest.Config{Firewalld: true})
	n := newNode(k)
	a := &attachment{network: walled(1, ""), pod: 2, netns: k.NewPod()}
	n.add(t, a)
	if got := k.SourcesOf("trusted"); len(got) != 2 {
		t.Errorf("sources %v", got)
	}
	k.StartFirewalld()
	if found := n.check(t, a); !strings.Contains(found, "firewalld zone trusted") {
		t.Errorf("CHECK after a new start: %q", found)
	}
	if _, err := n.engine.Repair(t.Context(), a.steps(t, cni.VerbCheck)); err != nil {
		t.Error(err)
	}
	if found := n.check(t, a); found != "" {
		t.Errorf("CHECK after the repair: %s", found)
	}
	a.prev = nil
	n.del(t, a)
	if dump := k.Dump(); strings.Contains(dump, "firewalld") {
		t.Errorf("left:\n%s", dump)
	}
}
