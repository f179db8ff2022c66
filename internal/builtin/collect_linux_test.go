package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins/hostlocal"
)

// node is a runner with leases on disk and a kernel in memory.
type node struct {
	*builtin.Runner
	t        *testing.T
	kernel   *kerneltest.Memory
	programs *programs
	fault    func(step string) error
	dir      string           // of leases
	answers  map[string]error // what asking an address gives: nil is an answer, errSilent none
	dirs     []string
}

var errSilent = errors.New("silent")

func newNode(t *testing.T) *node {
	n := &node{t: t, programs: &programs{}, dir: t.TempDir(), answers: map[string]error{}}
	n.kernel = kerneltest.NewMemory(kerneltest.Config{Fault: func(step string) error {
		if n.fault != nil {
			return n.fault(step)
		}
		return nil
	}})
	store, err := leases.New(leases.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	n.Runner = builtin.New(builtin.Config{
		Plugins: []planned.Definition{wire(), route(), hostlocal.Plugin()}, Kernel: n.kernel, Leases: store, Programs: n.programs,
		Answers: func(_ context.Context, addr netip.Addr) (bool, error) {
			err, ok := n.answers[addr.String()]
			if !ok || errors.Is(err, errSilent) {
				return false, nil
			}
			return err == nil, err
		},
	})
	return n
}

// call is one of wire with host-local.
func (n *node) call(verb cni.Verb, id, ns string) libcni.Call {
	c := call(n.t, verb, ns, "wire", fmt.Sprintf(`{"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.1.0.0/29"}]]}}`, n.dir), n.dirs...)
	c.ContainerID = id
	return c
}

func (n *node) add(id, ns string) json.RawMessage {
	n.t.Helper()
	out, err := n.Run(n.t.Context(), []libcni.Call{n.call(cni.VerbAdd, id, ns)})
	if err != nil {
		n.t.Fatal(err)
	}
	return out[0]
}

// gc is a GC call for these valid container IDs.
func (n *node) gc(c libcni.Call, version string, valid ...string) libcni.Call {
	list := []cni.Attachment{}
	for _, id := range valid {
		list = append(list, cni.Attachment{ContainerID: id, IfName: "eth0"})
	}
	c.Verb, c.ContainerID, c.IfName, c.Dirs = cni.VerbGC, "", "", []string{"/none"}
	c.Dirs = append(c.Dirs, n.dirs...)
	for key, value := range map[string]any{"cniVersion": version, "cni.dev/valid-attachments": list} {
		if err := c.Conf.SetValue(key, value); err != nil {
			n.t.Fatal(err)
		}
	}
	return c
}

func (n *node) leases() []string {
	entries, err := os.ReadDir(filepath.Join(n.dir, "n"))
	if err != nil {
		n.t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "10.") {
			list = append(list, e.Name())
		}
	}
	return list
}

// said gives what was collected in short: freed or kept, kind and container.
func said(list []libcni.Collected) []string {
	var all []string
	for _, c := range list {
		what := "freed"
		if c.Kept {
			what = "kept"
		}
		all = append(all, what+" "+c.Kind+" "+c.Owner.ContainerID)
	}
	slices.Sort(all)
	return all
}

// TestCollect: what belongs to nobody is freed, what seems to be in use is kept, in any version, and a dry run says the same.
func TestCollect(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers map[string]error
		how     libcni.CollectArgs
		want    []string
		left    []string // leases
	}{
		// .2 is of a recorded pod, .3 of one whose link is there, .4 and .5 of those whose namespaces are gone.
		{name: "silent", want: []string{"freed lease gone1", "freed lease gone2", "kept lease alive", "kept link alive"}, left: []string{"10.1.0.2", "10.1.0.3"}},
		{name: "answers", answers: map[string]error{"10.1.0.4": nil, "10.1.0.3": errSilent},
			want: []string{"freed lease gone2", "kept lease alive", "kept lease gone1", "kept link alive"}, left: []string{"10.1.0.2", "10.1.0.3", "10.1.0.4"}},
		{name: "not-known", answers: map[string]error{"10.1.0.5": errors.New("as asked")},
			want: []string{"freed lease gone1", "kept lease alive", "kept lease gone2", "kept link alive"}, left: []string{"10.1.0.2", "10.1.0.3", "10.1.0.5"}},
		{name: "unknown", answers: map[string]error{"10.1.0.4": nil}, how: libcni.CollectArgs{Unknown: true},
			want: []string{"freed lease alive", "freed lease gone1", "freed lease gone2", "freed link alive"}, left: []string{"10.1.0.2"}},
		{name: "told-gone", answers: map[string]error{"10.1.0.3": nil},
			how:  libcni.CollectArgs{Gone: map[string]string{netstate.Owner{Network: "n", ContainerID: "alive", IfName: "eth0"}.Mark(): "its namespace is gone"}},
			want: []string{"freed lease alive", "freed lease gone1", "freed lease gone2", "freed link alive"}, left: []string{"10.1.0.2"}},
	} {
		for _, version := range []string{"0.4.0", "1.1.0"} {
			t.Run(tc.name+"-"+version, func(t *testing.T) {
				n := newNode(t)
				n.answers = tc.answers
				for _, id := range []string{"recorded", "alive", "gone1", "gone2"} {
					ns := n.kernel.NewPod()
					n.add(id, ns)
					if strings.HasPrefix(id, "gone") {
						if err := n.kernel.RemovePod(ns); err != nil {
							t.Fatal(err)
						}
					}
				}
				calls := []libcni.Call{n.gc(n.call(cni.VerbGC, "", ""), version, "recorded"), n.gc(call(t, cni.VerbGC, "", "route", `{}`), version, "recorded")}
				before, held := n.kernel.Dump(), n.leases()
				dry := tc.how
				dry.DryRun = true
				got, err := n.Collect(t.Context(), calls, dry)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, said(got)); diff != "" {
					t.Errorf("dry run (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(before, n.kernel.Dump()); diff != "" || !slices.Equal(held, n.leases()) {
					t.Errorf("the dry run changed something: leases %v, kernel (-before +after)\n%s", n.leases(), diff)
				}
				got, err = n.Collect(t.Context(), calls, tc.how)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, said(got)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(tc.left, n.leases()); diff != "" {
					t.Errorf("leases left (-want +got)\n%s", diff)
				}
				if kept := strings.Contains(n.kernel.Dump(), netstate.Owner{Network: "n", ContainerID: "alive", IfName: "eth0"}.HostName("veth")); kept != slices.Contains(tc.want, "kept link alive") {
					t.Errorf("the link of the living one is there: %v", kept)
				}
			})
		}
	}
}

// TestCollectTellsPrograms whom to keep, and calls them only in versions that have GC and never in a dry run.
func TestCollectTellsPrograms(t *testing.T) {
	dir := program(t, "other", "#!/bin/sh\n")
	n := newNode(t)
	n.dirs = []string{dir}
	n.add("alive", n.kernel.NewPod())
	for _, tc := range []struct {
		version string
		dry     bool
		want    []string
	}{{"1.1.0", true, nil}, {"1.0.0", false, nil}, {"1.1.0", false, []string{"GC other"}}} {
		n.programs.calls = nil
		calls := []libcni.Call{n.gc(call(t, cni.VerbGC, "", "other", `{}`), tc.version), n.gc(n.call(cni.VerbGC, "", ""), tc.version)}
		if _, err := n.Collect(t.Context(), calls, libcni.CollectArgs{DryRun: tc.dry}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, n.programs.calls); diff != "" {
			t.Errorf("%s, dry %v: programs run (-want +got)\n%s", tc.version, tc.dry, diff)
		}
	}
	last := n.programs.last.Conf
	var valid []cni.Attachment
	if _, err := last.Decode("cni.dev/valid-attachments", &valid); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]cni.Attachment{{ContainerID: "alive", IfName: "eth0"}}, valid); diff != "" {
		t.Errorf("the program keeps (-want +got)\n%s", diff)
	}
}

// TestCollectIFB: an ifb without a record is freed, since the host keeps it when its pod is gone; a veth is kept.
func TestCollectIFB(t *testing.T) {
	n := newNode(t)
	gc := n.gc(n.call(cni.VerbGC, "", ""), "1.1.0")
	var conf struct{ Name string }
	if err := json.Unmarshal(gc.Conf.Bytes(), &conf); err != nil {
		t.Fatal(err)
	}
	s, err := n.kernel.Open(t.Context(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	for id, links := range map[string][]netstate.Link{
		"dead":  {{Place: netstate.Host, Name: "bwp1", Kind: "ifb"}},
		"alive": {{Place: netstate.Host, Name: "bwp2", Kind: "ifb"}, {Place: netstate.Host, Name: "veth2", Kind: "veth", Peer: "veth3", PeerPlace: netstate.Host}},
	} {
		owner := netstate.Owner{Network: conf.Name, ContainerID: id, IfName: "eth0"}
		if err := s.Apply(t.Context(), netstate.State{Owner: owner, Links: links}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := n.Collect(t.Context(), []libcni.Call{gc}, libcni.CollectArgs{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"freed link dead", "kept link alive", "kept link alive", "kept link alive"}, said(got)); diff != "" {
		t.Errorf("collected (-want +got)\n%s", diff)
	}
}

// TestCollectGoesOn: a plugin that fails keeps none of the others from their part.
func TestCollectGoesOn(t *testing.T) {
	n := newNode(t)
	ns := n.kernel.NewPod()
	n.add("gone", ns)
	if err := n.kernel.RemovePod(ns); err != nil {
		t.Fatal(err)
	}
	calls := []libcni.Call{n.gc(call(t, cni.VerbGC, "", "missing", `{}`), "1.1.0"), n.gc(n.call(cni.VerbGC, "", ""), "1.1.0")}
	got, err := n.Collect(t.Context(), calls, libcni.CollectArgs{})
	if e, ok := errors.AsType[*cni.Error](err); !ok || e.Plugin != "missing" {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"freed lease gone"}, said(got)); diff != "" || len(n.leases()) > 0 {
		t.Errorf("leases %v, (-want +got)\n%s", n.leases(), diff)
	}
	n.fault = func(step string) error {
		if strings.HasPrefix(step, "collect") {
			return errors.New("as asked")
		}
		return nil
	}
	if got, err := n.Collect(t.Context(), calls[1:], libcni.CollectArgs{}); err == nil || len(got) > 0 {
		t.Errorf("collected %v, error %v", got, err)
	}
}

// TestRepair: built-in neighbours are repaired as one, a program between them is checked, and what was right is not touched.
func TestRepair(t *testing.T) {
	dir := program(t, "other", "#!/bin/sh\n")
	n := newNode(t)
	n.dirs = []string{dir}
	ns := n.kernel.NewPod()
	prev := n.add("c1", ns)
	n.add("c2", n.kernel.NewPod())
	before := n.kernel.Dump()
	if err := n.kernel.DelLink(ns, "eth0"); err != nil {
		t.Fatal(err)
	}
	n.programs.calls = nil
	calls := []libcni.Call{n.call(cni.VerbCheck, "c1", ns), call(t, cni.VerbCheck, ns, "other", `{}`, dir)}
	for i := range calls {
		calls[i].Prev = prev
	}
	changed, err := n.Repair(t.Context(), calls)
	if err != nil || len(changed) < 2 {
		t.Fatalf("changed %v, error %v", changed, err)
	}
	if diff := cmp.Diff(before, n.kernel.Dump()); diff != "" {
		t.Errorf("not as before (-before +after)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"CHECK other prev"}, n.programs.calls); diff != "" {
		t.Errorf("programs run (-want +got)\n%s", diff)
	}
	if changed, err := n.Repair(t.Context(), calls); err != nil || len(changed) > 0 {
		t.Errorf("again: changed %v, error %v", changed, err)
	}
}

func TestStatus(t *testing.T) {
	dir := program(t, "other", "#!/bin/sh\n")
	status := func(version string, c libcni.Call) libcni.Call {
		c.Verb, c.ContainerID, c.IfName = cni.VerbStatus, "", ""
		if err := c.Conf.SetValue("cniVersion", version); err != nil {
			t.Fatal(err)
		}
		return c
	}
	n := newNode(t)
	lacking := newNode(t)
	lacking.fault = func(step string) error {
		if strings.HasPrefix(step, "supports host link") {
			return netstate.ErrUnsupported
		}
		return nil
	}
	full := newNode(t)
	for i := range 5 { // as many as a /29 has besides its gateway
		full.add(fmt.Sprint("c", i), full.kernel.NewPod())
	}
	for _, tc := range []struct {
		name  string
		node  *node
		call  libcni.Call
		asked bool
		code  cni.Code
		text  string
	}{
		{"ready", n, status("1.1.0", n.call("", "", "")), true, 0, ""},
		{"ready-old", n, status("0.4.0", n.call("", "", "")), true, 0, ""},
		{"used-up-old", full, status("0.4.0", full.call("", "", "")), true, cni.CodeNotAvailable, "c0"},
		{"lacking-old", lacking, status("1.0.0", lacking.call("", "", "")), true, cni.CodeNotAvailable, "host link veth"},
		{"configuration", n, status("1.0.0", call(t, "", "", "wire", `{"address":7}`)), true, cni.CodeInvalidConfig, "address"},
		{"panic", n, status("1.0.0", call(t, "", "", "wire", `{"panic":true}`)), true, cni.CodeInternal, "panic"},
		{"missing", n, status("1.0.0", call(t, "", "", "missing", `{}`, dir)), true, cni.CodeNotAvailable, "missing"},
		{"program", n, status("1.1.0", call(t, "", "", "other", `{}`, dir)), true, 0, ""},
		{"program-old", n, status("1.0.0", call(t, "", "", "other", `{}`, dir)), false, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked, err := tc.node.Status(t.Context(), tc.call)
			if asked != tc.asked || cni.CodeOf(err) != tc.code || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("asked %v, error %v with code %d, want %v and %d", asked, err, cni.CodeOf(err), tc.asked, tc.code)
			}
		})
	}
}
