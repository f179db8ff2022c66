package libcni_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
)

// collectingRunner is a fakeRunner whose plugins own objects: one lease for each attachment, by its mark.
type collectingRunner struct {
	*fakeRunner
	leases  []netstate.Owner
	kept    []libcni.Collected
	asked   []libcni.CollectArgs
	fail    error
	repairs [][]libcni.Call
	changed []netstate.Difference
}

func (r *collectingRunner) Collect(_ context.Context, calls []libcni.Call, how libcni.CollectArgs) ([]libcni.Collected, error) {
	r.asked = append(r.asked, how)
	var valid []cni.Attachment
	if _, err := calls[0].Conf.Decode("cni.dev/valid-attachments", &valid); err != nil {
		return nil, err
	}
	var freed []libcni.Collected
	var left []netstate.Owner
	for _, o := range r.leases {
		if slices.Contains(valid, cni.Attachment{ContainerID: o.ContainerID, IfName: o.IfName}) {
			left = append(left, o)
			continue
		}
		why := how.Gone[o.Mark()]
		if why == "" {
			why = "nobody's"
		}
		freed = append(freed, libcni.Collected{Kind: "lease", Name: "lease " + o.ContainerID, Owner: o, Mark: o.Mark(), Why: why})
	}
	if !how.DryRun {
		r.leases = left
	}
	return append(freed, r.kept...), r.fail
}

func (r *collectingRunner) Repair(_ context.Context, calls []libcni.Call) ([]netstate.Difference, error) {
	r.repairs = append(r.repairs, calls)
	return r.changed, r.fail
}

func newCollecting(t *testing.T) (*kit, *collectingRunner) {
	r := &collectingRunner{}
	k := newKit(t, func(cfg *libcni.Config) {
		r.fakeRunner = cfg.Runner.(*fakeRunner)
		cfg.Runner = r
	})
	r.plugins["a"] = verbs{cni.VerbDel: func(c libcni.Call) ([]byte, error) {
		r.leases = slices.DeleteFunc(r.leases, func(o netstate.Owner) bool { return o.ContainerID == c.ContainerID })
		return nil, nil
	}}
	return k, r
}

// attach makes an attachment that lives, or one whose namespace is gone.
func (k *kit) attach(t *testing.T, list *libcni.NetworkConfigList, id string, lives bool) netstate.Owner {
	t.Helper()
	rt := &libcni.RuntimeConf{ContainerID: id, NetNS: "/proc/self/ns/net", IfName: "eth0"}
	if !lives {
		rt.NetNS = filepath.Join(t.TempDir(), "gone")
	}
	k.mustAdd(t, list, rt)
	return netstate.Owner{Network: list.Name, ContainerID: id, IfName: "eth0"}
}

func TestCollectNetworkList(t *testing.T) {
	k, r := newCollecting(t)
	list := network(t, "1.0.0", "a")
	for id, lives := range map[string]bool{"lives": true, "dead": false} {
		r.leases = append(r.leases, k.attach(t, list, id, lives))
	}
	stranger := netstate.Owner{Network: "net1", ContainerID: "stranger", IfName: "eth0"}
	r.leases = append(r.leases, stranger)
	write(t, filepath.Join(k.state, "cleat", "adding", "x"), "{") // an intent that can't be read hides nothing

	want := []libcni.Collected{
		{Kind: "attachment", Name: "net1/dead/eth0", Why: "its namespace is gone"},
		{Kind: "lease", Name: "lease dead", Why: "its namespace is gone"},
		{Kind: "lease", Name: "lease stranger", Why: "nobody's"},
	}
	shown := cmp.Options{cmpopts.IgnoreFields(libcni.Collected{}, "Owner", "Mark"),
		cmpopts.SortSlices(func(a, b libcni.Collected) bool { return a.Name < b.Name })}
	k.lines()
	before, _ := k.stored(t)
	dry, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, dry, shown); diff != "" {
		t.Errorf("dry run (-want +got)\n%s", diff)
	}
	if after, _ := k.stored(t); !slices.Equal(before, after) || len(r.leases) != 3 || len(k.lines()) > 0 {
		t.Errorf("the dry run changed something: records %v, leases %v", after, r.leases)
	}
	freed, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, freed, shown); diff != "" {
		t.Errorf("freed (-want +got)\n%s", diff)
	}
	if records, _ := k.stored(t); !slices.Equal(records, []string{"net1-lives-eth0"}) || len(r.leases) != 1 {
		t.Errorf("left: records %v, leases %v", records, r.leases)
	}
	if diff := cmp.Diff([]string{"DEL a"}, k.lines()); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	again, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{})
	if err != nil || len(again) > 0 {
		t.Errorf("again: %v, %v", again, err)
	}
}

// TestCollectEmptyRecords is the same where nobody says who is valid: what seems to be in use tells.
func TestCollectEmptyRecords(t *testing.T) {
	kept := func(id string) libcni.Collected {
		return libcni.Collected{Kind: "lease", Kept: true, Owner: netstate.Owner{Network: "net1", ContainerID: id, IfName: "eth0"}}
	}
	for _, tc := range []struct {
		name string
		kept libcni.Collected
		want []string
	}{
		{"nothing-kept", libcni.Collected{}, nil},
		{"its-lease-kept", kept("killed"), []string{"net1-killed-eth0"}},
		{"anothers-lease-kept", kept("c9"), nil},
		{"unknown-kept", kept(""), []string{"net1-killed-eth0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, r := newCollecting(t)
			list := network(t, "1.1.0", "a")
			if tc.kept.Kept {
				r.kept = []libcni.Collected{tc.kept}
			}
			write(t, k.state+"/results/net1-killed-eth0", "")
			dry, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			freed, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{})
			if diff := cmp.Diff(dry, freed); diff != "" || err != nil {
				t.Errorf("error %v, freed (-dry run +in earnest)\n%s", err, diff)
			}
			if n := len(freed) - len(r.kept); n != 1-len(tc.want) {
				t.Errorf("%d records are said to go: %+v", n, freed)
			}
			if records, _ := k.stored(t); !slices.Equal(records, tc.want) {
				t.Errorf("records %v, want %v", records, tc.want)
			}
		})
	}
}

// TestCollectUnfinished: an ADD that was killed left an intent; its attachment goes.
func TestCollectUnfinished(t *testing.T) {
	k, r := newCollecting(t)
	list := network(t, "1.1.0", "a", "b")
	r.plugins["b"] = verbs{cni.VerbAdd: answers("", pluginError(5, "no")), cni.VerbDel: answers("", pluginError(5, "not yet"))}
	if _, err := k.AddNetworkList(t.Context(), list, attachment()); err == nil {
		t.Fatal("ADD succeeds")
	}
	if _, intents := k.stored(t); len(intents) != 1 {
		t.Fatalf("intents %v, want the one that could not be undone", intents)
	}
	r.plugins["b"] = verbs{}
	freed, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{})
	if err != nil || len(freed) != 1 || freed[0].Why != "its ADD was not finished" {
		t.Errorf("freed %+v, error %v", freed, err)
	}
	if _, intents := k.stored(t); len(intents) > 0 {
		t.Errorf("left: intents %v", intents)
	}
}

// TestCollectGoesOn: a DEL that fails keeps its record and is not told as freed; the plugins are asked all the same.
func TestCollectGoesOn(t *testing.T) {
	k, r := newCollecting(t)
	list := network(t, "1.1.0", "a")
	k.attach(t, list, "dead", false)
	r.plugins["a"] = verbs{cni.VerbDel: answers("", pluginError(5, "as asked"))}
	r.leases = []netstate.Owner{{Network: "net1", ContainerID: "stranger", IfName: "eth0"}}
	freed, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{Unknown: true})
	if err == nil || !strings.Contains(err.Error(), "delete net1/dead/eth0") || !strings.Contains(err.Error(), "as asked") {
		t.Errorf("error %v", err)
	}
	if len(freed) != 1 || freed[0].Name != "lease stranger" {
		t.Errorf("freed %+v", freed)
	}
	if records, _ := k.stored(t); len(records) != 1 {
		t.Errorf("records %v", records)
	}
	if last := r.asked[len(r.asked)-1]; !last.Unknown || last.DryRun {
		t.Errorf("the plugins were asked with %+v", last)
	}
}

func TestCollectDisabled(t *testing.T) {
	k, r := newCollecting(t)
	list := parse(t, `{"cniVersion":"1.1.0","name":"net1","disableGC":true,"plugins":[{"type":"a"}]}`)
	k.attach(t, list, "dead", false)
	freed, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{})
	if err != nil || freed != nil || len(r.asked) > 0 {
		t.Errorf("freed %v, error %v, asked %v", freed, err, r.asked)
	}
}

// TestCollectPrograms: with a Runner that is no Collector the plugins get GC, in versions that have it, and not in a dry run.
func TestCollectPrograms(t *testing.T) {
	for _, tc := range []struct {
		name, version string
		dryRun        bool
		want          []string
	}{
		{"newest", "1.1.0", false, []string{"DEL a", "GC a"}},
		{"dry-run", "1.1.0", true, nil},
		{"old", "1.0.0", false, []string{"DEL a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t)
			list := network(t, tc.version, "a")
			k.attach(t, list, "dead", false)
			k.lines()
			freed, err := k.CollectNetworkList(t.Context(), list, libcni.CollectArgs{DryRun: tc.dryRun})
			if err != nil || len(freed) != 1 {
				t.Errorf("freed %v, error %v", freed, err)
			}
			if diff := cmp.Diff(tc.want, k.lines()); diff != "" {
				t.Errorf("calls (-want +got)\n%s", diff)
			}
		})
	}
}

func TestRepairNetworkList(t *testing.T) {
	k, r := newCollecting(t)
	list := network(t, "1.0.0", "a", "b")
	k.mustAdd(t, list, attachment())
	r.changed = []netstate.Difference{{Object: "pod link eth0", Want: "pod link eth0 kind veth"}}
	changed, err := k.RepairNetworkList(t.Context(), list, &libcni.RuntimeConf{ContainerID: "c1", IfName: "eth0"}, libcni.RepairArgs{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.changed, changed); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	calls := r.repairs[0]
	if len(calls) != 2 || calls[1].Verb != cni.VerbCheck || calls[1].NetNS != "/proc/self/ns/net" || calls[1].Prev == nil {
		t.Errorf("calls %+v, want those of a CHECK with what the record holds", calls)
	}
	r.fail = errors.New("as asked")
	if changed, err := k.RepairNetworkList(t.Context(), list, attachment(), libcni.RepairArgs{}); err == nil || len(changed) != 1 {
		t.Errorf("changed %v, error %v: want both", changed, err)
	}
}

func TestRepairRefused(t *testing.T) {
	k, r := newCollecting(t)
	list := network(t, "1.0.0", "a")
	for _, tc := range []struct {
		name string
		rt   *libcni.RuntimeConf
		code cni.Code
	}{
		{"not-attached", attachment(), cni.CodeUnknownContainer},
		{"bad-id", &libcni.RuntimeConf{ContainerID: "../x", IfName: "eth0"}, cni.CodeInvalidEnvironment},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := k.RepairNetworkList(t.Context(), list, tc.rt, libcni.RepairArgs{}); cni.CodeOf(err) != tc.code {
				t.Errorf("error %v, want code %d", err, tc.code)
			}
		})
	}
	if len(r.repairs) > 0 {
		t.Errorf("repaired: %v", r.repairs)
	}
	if _, err := newKit(t).RepairNetworkList(t.Context(), list, attachment(), libcni.RepairArgs{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("with programs: %v, want ErrUnsupported", err)
	}
}

// TestRepairBusy: while another operation runs on the container, repair passes over it, or waits.
func TestRepairBusy(t *testing.T) {
	k, r := newCollecting(t)
	list := network(t, "1.0.0", "a")
	k.mustAdd(t, list, attachment())
	r.plugins["a"] = verbs{cni.VerbCheck: func(libcni.Call) ([]byte, error) {
		_, err := k.RepairNetworkList(t.Context(), list, attachment(), libcni.RepairArgs{SkipBusy: true})
		return nil, err
	}}
	err := k.CheckNetworkList(t.Context(), list, attachment())
	if !errors.Is(err, libcni.ErrBusy) || cni.CodeOf(err) != cni.CodeTryAgain || len(r.repairs) > 0 {
		t.Errorf("while CHECK runs: %v", err)
	}
	if _, err := k.RepairNetworkList(t.Context(), list, attachment(), libcni.RepairArgs{SkipBusy: true}); err != nil || len(r.repairs) != 1 {
		t.Errorf("when nothing runs: %v", err)
	}
}
