package libcni_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// TestB008FailedAddLeavesNothing: whichever plugin fails, however several are run at once, those that ran are deleted.
func TestB008FailedAddLeavesNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		batch int
		fails string
		want  []string
	}{
		{"first", 1, "a", []string{"ADD a", "DEL a"}},
		{"middle", 1, "b", []string{"ADD a", "ADD b", "DEL b", "DEL a"}},
		{"last", 1, "c", []string{"ADD a", "ADD b", "ADD c", "DEL c", "DEL b", "DEL a"}},
		{"last-of-a-batch", 3, "c", []string{"ADD a", "ADD b", "ADD c", "DEL c", "DEL b", "DEL a"}},
		{"first-of-a-batch", 3, "a", []string{"ADD a", "DEL a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t)
			k.batch = tc.batch
			k.plugins[tc.fails] = verbs{cni.VerbAdd: answers("", pluginError(11, "no address is free"))}
			_, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a", "b", "c"), attachment())
			if cni.CodeOf(err) != 11 || !strings.Contains(err.Error(), tc.fails+": no address is free") {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, k.lines()); diff != "" {
				t.Errorf("ran (-want +got):\n%s", diff)
			}
			if records, intents := k.stored(t); len(records)+len(intents) > 0 {
				t.Errorf("left: %v %v", records, intents)
			}
		})
	}
}

// TestB008MissingPluginRunsNothing: what can't end well isn't begun.
func TestB008MissingPluginRunsNothing(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a", "dummy-that-does-not-exist")
	if _, err := k.AddNetworkList(t.Context(), list, attachment()); err == nil {
		t.Error("ADD of a list with a missing plugin succeeds")
	}
	if ran := k.lines(); ran != nil {
		t.Errorf("ran %v", ran)
	}
	if records, intents := k.stored(t); len(records)+len(intents) > 0 {
		t.Errorf("left: %v %v", records, intents)
	}
}

// TestUndoThatFails: the error tells both, the intent stays, and the next DEL frees the rest with the list it was added with.
func TestUndoThatFails(t *testing.T) {
	k := newKit(t)
	k.plugins["b"] = verbs{cni.VerbAdd: answers("", pluginError(5, "disk is full")), cni.VerbDel: answers("", pluginError(5, "still full"))}
	_, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a", "b"), attachment())
	for _, part := range []string{"b: disk is full", "undo it: b: still full"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v lacks %q", err, part)
		}
	}
	if diff := cmp.Diff([]string{"ADD a", "ADD b", "DEL b", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if records, intents := k.stored(t); len(records) != 0 || len(intents) != 1 {
		t.Fatalf("stored %v %v, want one intent", records, intents)
	}
	all, err := k.Attachments(t.Context())
	if err != nil || len(all) != 1 || all[0].State != libcni.StateBroken || all[0].ContainerID != "c1" {
		t.Errorf("attachments %+v, %v", all, err)
	}
	k.plugins["b"] = verbs{}
	k.mustDel(t, network(t, "1.1.0", "c"), attachment())
	if diff := cmp.Diff([]string{"DEL b", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("DEL (-want +got):\n%s", diff)
	}
	if _, intents := k.stored(t); len(intents) > 0 {
		t.Errorf("intent stays: %v", intents)
	}
}

// TestUndoThatCantForget: an intent that can't be removed is left, too, and the error says what frees it.
func TestUndoThatCantForget(t *testing.T) {
	k := newKit(t)
	k.plugins["a"] = verbs{cni.VerbAdd: func(libcni.Call) ([]byte, error) {
		_, intents := k.stored(t)
		path := filepath.Join(k.state, "cleat", "adding", intents[0])
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(path, "in", "the way"), "")
		return nil, errors.New("no")
	}}
	_, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a"), attachment())
	if err == nil || !strings.Contains(err.Error(), "undo it: remove record: ") || !strings.Contains(err.Error(), "what was left is freed by DEL or GC") {
		t.Errorf("error %v", err)
	}
}

// TestB009UndoHasItsOwnTime: the context of an ADD that timed out is of no use for undoing it.
func TestB009UndoHasItsOwnTime(t *testing.T) {
	k := newKit(t)
	ctx, cancel := context.WithCancel(t.Context())
	k.plugins["b"] = verbs{cni.VerbAdd: func(libcni.Call) ([]byte, error) {
		cancel()
		return nil, ctx.Err()
	}}
	_, err := k.AddNetworkList(ctx, network(t, "1.1.0", "a", "b"), attachment())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v doesn't match the context's", err)
	}
	if diff := cmp.Diff([]string{"ADD a", "ADD b", "DEL b", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
}

// TestB009TraceBeforeAdd: what a killed runtime began is on disk before the first plugin runs, and a later DEL finds it.
func TestB009TraceBeforeAdd(t *testing.T) {
	k := newKit(t)
	var during []*libcni.NetworkAttachment
	k.plugins["a"] = verbs{cni.VerbAdd: func(call libcni.Call) ([]byte, error) {
		var err error
		if during, err = k.Attachments(t.Context()); err != nil {
			t.Error(err)
		}
		_, intents := k.stored(t)
		data, err := os.ReadFile(k.state + "/cleat/adding/" + intents[0])
		if err != nil {
			t.Error(err)
		}
		// A process that is killed now leaves this.
		write(t, k.state+"/kept", string(data))
		return silent(call)
	}}
	k.mustAdd(t, network(t, "1.1.0", "a", "b"), attachment())
	if len(during) != 1 || during[0].State != libcni.StateAdding || during[0].Network != "net1" {
		t.Errorf("attachments during ADD: %+v", during)
	}
	k.mustDel(t, network(t, "1.1.0", "a", "b"), attachment())
	k.lines()

	data, err := os.ReadFile(k.state + "/kept")
	if err != nil {
		t.Fatal(err)
	}
	write(t, k.state+"/cleat/adding/net1-c1-eth0~"+intentHash, string(data))
	if err := k.DelAttachment(t.Context(), during[0]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DEL b", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("DEL (-want +got):\n%s", diff)
	}
	if _, intents := k.stored(t); len(intents) > 0 {
		t.Errorf("intent stays: %v", intents)
	}
}

// intentHash ends the name of the intent of net1/c1/eth0. It is on disks: changing it orphans what is there.
const intentHash = "451fbda28a818902"

// TestIntentThatWasNotWritten: killed before its first line was whole, the runtime had run nothing. It is no attachment, in nobody's way, and
// GC removes it.
func TestIntentThatWasNotWritten(t *testing.T) {
	for _, text := range []string{"", `{"kind":"cniCa`} {
		k := newKit(t)
		list := network(t, "1.1.0", "a")
		path := k.state + "/cleat/adding/net1-c1-eth0~" + intentHash
		write(t, path, text)
		if all, err := k.Attachments(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("attachments %+v, %v", all, err)
		}
		k.mustAdd(t, list, attachment())
		if diff := cmp.Diff([]string{"ADD a"}, k.lines()); diff != "" {
			t.Errorf("ran (-want +got):\n%s", diff)
		}
		write(t, path, text)
		k.mustDel(t, list, attachment())
		if records, intents := k.stored(t); len(records)+len(intents) > 0 {
			t.Errorf("left: %v %v", records, intents)
		}
		write(t, path, text)
		if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{}); err != nil {
			t.Error(err)
		}
		if _, intents := k.stored(t); len(intents) > 0 {
			t.Errorf("GC leaves %v", intents)
		}
	}
}

// TestRecordsOnAnotherFileSystem: a rename doesn't reach it.
func TestRecordsOnAnotherFileSystem(t *testing.T) {
	elsewhere, err := os.MkdirTemp("/dev/shm", "libcni")
	if err != nil {
		elsewhere = t.TempDir() // the link alone is to be followed then
	}
	t.Cleanup(func() { os.RemoveAll(elsewhere) })
	k := newKit(t)
	if err := os.Symlink(elsewhere, k.state+"/results"); err != nil {
		t.Fatal(err)
	}
	list := network(t, "1.1.0", "a")
	k.mustAdd(t, list, attachment())
	if records, intents := k.stored(t); len(records) != 1 || len(intents) != 0 {
		t.Errorf("stored %v %v", records, intents)
	}
	if err := k.CheckNetworkList(t.Context(), list, attachment()); err != nil {
		t.Error(err)
	}
	k.mustDel(t, list, attachment())
	if records, _ := k.stored(t); len(records) > 0 {
		t.Errorf("left: %v", records)
	}
}

// TestB032SecondAdd: an attachment that lives is not added again; one whose namespace is gone is deleted first.
func TestB032SecondAdd(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a")
	k.mustAdd(t, list, attachment())
	_, err := k.AddNetworkList(t.Context(), list, attachment())
	if err == nil || !strings.Contains(err.Error(), "already: added 0s ago") || !strings.Contains(err.Error(), k.recordPath()) {
		t.Errorf("second ADD: %v", err)
	}
	k.mustDel(t, list, attachment())

	gone := attachment()
	gone.NetNS = k.state + "/netns-that-is-gone"
	k.mustAdd(t, list, gone)
	k.lines()
	k.mustAdd(t, network(t, "1.1.0", "b"), attachment())
	if diff := cmp.Diff([]string{"DEL a", "ADD b"}, k.lines()); diff != "" {
		t.Errorf("ADD over a dead attachment (-want +got):\n%s", diff)
	}
}

// TestB093StateThatCantBeWritten is found before any plugin runs.
func TestB093StateThatCantBeWritten(t *testing.T) {
	for _, tc := range []struct {
		name string
		prep func(state string)
	}{
		{"results-is-a-file", func(state string) { write(t, state+"/results", "") }},
		{"adding-is-a-file", func(state string) { write(t, state+"/cleat/adding", "") }},
		{"state-is-a-file", func(state string) { os.RemoveAll(state); write(t, state, "") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t, func(cfg *libcni.Config) { cfg.LockDir = t.TempDir() })
			tc.prep(k.state)
			_, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a"), attachment())
			if cni.CodeOf(err) != cni.CodeIO || !strings.Contains(err.Error(), k.state) {
				t.Errorf("error %v (code %d), want 5 with the path", err, cni.CodeOf(err))
			}
			if ran := k.lines(); ran != nil {
				t.Errorf("ran %v", ran)
			}
		})
	}
}

// TestB093RecordThatCantBeWritten: the network is up, but what isn't recorded must not stay.
func TestB093RecordThatCantBeWritten(t *testing.T) {
	k := newKit(t)
	k.plugins["a"] = verbs{cni.VerbAdd: func(call libcni.Call) ([]byte, error) {
		if err := os.RemoveAll(k.state + "/results"); err != nil {
			t.Error(err)
		}
		write(t, k.state+"/results", "")
		return silent(call)
	}}
	_, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a"), attachment())
	if cni.CodeOf(err) != cni.CodeIO {
		t.Errorf("error %v (code %d), want 5", err, cni.CodeOf(err))
	}
	if diff := cmp.Diff([]string{"ADD a", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if intents := names(t, k.state+"/cleat/adding"); len(intents) > 0 {
		t.Errorf("intent stays: %v", intents)
	}
}

// TestLockExcludesAcrossCNIs: two runtimes share nothing but the folders.
func TestLockExcludesAcrossCNIs(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a")
	k.plugins["a"] = verbs{cni.VerbAdd: func(call libcni.Call) ([]byte, error) {
		other := newKit(t, func(cfg *libcni.Config) { cfg.StateDir, cfg.LockDir = k.state, k.state+"/lock" })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := other.DelNetworkList(ctx, list, attachment())
		if !errors.Is(err, context.DeadlineExceeded) || cni.CodeOf(err) != cni.CodeTryAgain || !strings.Contains(err.Error(), "c1") {
			t.Errorf("DEL during ADD: %v", err)
		}
		err = other.GCNetworkList(ctx, list, &libcni.GCArgs{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("GC during ADD: %v", err)
		}
		return silent(call)
	}}
	k.mustAdd(t, list, attachment())
}

// TestUndoneNeedsNoDel: a runner that has undone its part is not asked to delete it, since DEL could take what stood
// before; the plugins in front of it are deleted.
func TestUndoneNeedsNoDel(t *testing.T) {
	k := newKit(t)
	k.plugins["b"] = verbs{cni.VerbAdd: func(libcni.Call) ([]byte, error) {
		return nil, &libcni.UndoneError{Err: pluginError(4, "eth0 exists")}
	}}
	_, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a", "b"), attachment())
	if cni.CodeOf(err) != 4 || !strings.Contains(err.Error(), "b: eth0 exists") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"ADD a", "ADD b", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if records, intents := k.stored(t); len(records)+len(intents) > 0 {
		t.Errorf("left: %v %v", records, intents)
	}
}

// TestUndoSharesItsTime: a plugin whose DEL hangs leaves time for the others'.
func TestUndoSharesItsTime(t *testing.T) {
	k := newKit(t)
	k.plugins["b"] = verbs{cni.VerbDel: func(libcni.Call) ([]byte, error) { return nil, context.DeadlineExceeded }}
	var share, rest time.Duration
	k.during = func(ctx context.Context, call libcni.Call) {
		if end, ok := ctx.Deadline(); ok && call.Verb == cni.VerbDel {
			if call.Type == "b" {
				share = time.Until(end)
			} else {
				rest = time.Until(end)
			}
		}
	}
	k.plugins["c"] = verbs{cni.VerbAdd: answers("", pluginError(5, "disk is full"))}
	if _, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a", "b", "c"), attachment()); err == nil {
		t.Fatal("no error")
	}
	if share == 0 || rest <= share {
		t.Errorf("the hanging DEL had %v, the one after it %v", share, rest)
	}
}
