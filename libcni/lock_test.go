package libcni_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// environOf is what the last call would give its program.
func environOf(call libcni.Call) []string {
	return call.Environ([]string{"KEPT=1", "CLEAT_OPERATION=old"})
}

func TestEnvironOfCall(t *testing.T) {
	k := newKit(t)
	var got []string
	k.during = func(_ context.Context, call libcni.Call) { got = environOf(call) }
	rt := attachment()
	rt.Args = cni.Args{{"K", "V"}}
	k.mustAdd(t, network(t, "1.1.0", "a"), rt)
	want := []string{
		"KEPT=1", "CLEAT_OPERATION=c1", "CNI_ARGS=K=V", "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_IFNAME=eth0",
		"CNI_NETNS=/proc/self/ns/net", "CNI_PATH=/fake",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ADD (-want +got):\n%s", diff)
	}
	if err := k.GCNetworkList(t.Context(), network(t, "1.1.0", "a"), &libcni.GCArgs{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(got, "CLEAT_OPERATION=*") || !slices.Contains(got, "CNI_CONTAINERID=") {
		t.Errorf("GC: %v", got)
	}
}

// TestPluginThatIsARuntime: what a plugin itself attaches the container to, with folders that it shares with its caller, does not wait for the
// caller; of other containers it waits for their operations as everybody does.
func TestPluginThatIsARuntime(t *testing.T) {
	k := newKit(t)
	outer, inner := network(t, "1.1.0", "a"), parse(t, `{"cniVersion":"1.1.0","name":"inner","plugins":[{"type":"b"}]}`)
	nested := func(call libcni.Call) *kit {
		return newKit(t, func(cfg *libcni.Config) {
			cfg.StateDir, cfg.LockDir, cfg.Environ = k.state, filepath.Join(k.state, "lock"), environOf(call)
		})
	}
	k.plugins["a"] = verbs{
		cni.VerbAdd: func(call libcni.Call) ([]byte, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := nested(call).AddNetworkList(ctx, inner, attachment()); err != nil {
				t.Errorf("ADD within ADD: %v", err)
			}
			list, err := nested(call).Attachments(ctx)
			if err != nil || len(list) != 2 || list[1].State != libcni.StateAdding {
				t.Errorf("attachments within ADD: %+v, %v", list, err)
			}
			return silent(call)
		},
		cni.VerbGC: func(call libcni.Call) ([]byte, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return nil, errors.Join(
				nested(call).GCNetworkList(ctx, inner, &libcni.GCArgs{}),
				nested(call).DelNetworkList(ctx, inner, attachment()))
		},
	}
	k.mustAdd(t, outer, attachment())
	if err := k.GCNetworkList(t.Context(), outer, &libcni.GCArgs{}); err != nil {
		t.Errorf("GC and DEL within GC: %v", err)
	}
	if records, _ := k.stored(t); len(records) > 0 {
		t.Errorf("records stay: %v", records)
	}

	k.plugins["a"] = verbs{cni.VerbAdd: func(call libcni.Call) ([]byte, error) {
		other := attachment()
		other.ContainerID = "c2"
		during := nested(call)
		during.plugins["b"] = verbs{cni.VerbAdd: func(libcni.Call) ([]byte, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := nested(call).DelNetworkList(ctx, inner, other); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("DEL of another container during its ADD: %v", err)
			}
			return silent(call)
		}}
		during.mustAdd(t, inner, other)
		return silent(call)
	}}
	k.mustAdd(t, outer, attachment())
}

func TestLockDirOfStateDir(t *testing.T) {
	dir := t.TempDir()
	c, err := libcni.New(libcni.Config{PluginDirs: []string{"/fake"}, StateDir: dir, Runner: &fakeRunner{plugins: map[string]verbs{"a": {}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DelNetworkList(t.Context(), network(t, "1.1.0", "a"), attachment()); err != nil {
		t.Fatal(err)
	}
	if locks := names(t, filepath.Join(dir, "cleat", "lock")); len(locks) != 1 {
		t.Errorf("locks %v", locks)
	}
}
