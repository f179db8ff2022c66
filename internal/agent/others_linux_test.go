package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cleat-cni/cleat/libcni"
)

// anyPlugin is a runner whose plugins attach everything.
type anyPlugin struct{ libcni.Runner }

func (anyPlugin) Find(typ string, _ []string) (string, error) { return typ, nil }

func (anyPlugin) Run(_ context.Context, calls []libcni.Call) ([][]byte, error) {
	out := make([][]byte, len(calls))
	for i := range out {
		out[i] = []byte(`{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}]}`)
	}
	return out, nil
}

// attachIn records an attachment in the folder of an agent.
func attachIn(t *testing.T, root, id string) {
	t.Helper()
	c, err := libcni.New(libcni.Config{StateDir: StateDir(root), Runner: anyPlugin{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	list, err := libcni.ConfListFromBytes([]byte(`{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"any"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNetworkList(t.Context(), list, &libcni.RuntimeConf{ContainerID: id, NetNS: "/proc/self/ns/net", IfName: "eth0"}); err != nil {
		t.Fatal(err)
	}
}

// TestOthersAreKnown: what another agent has attached is on the list of what a collection keeps, also when that agent does not run; and not what this one
// has, which knows best itself what of that is valid.
func TestOthersAreKnown(t *testing.T) {
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	agents := filepath.Join(dir, "agents")
	own, other := filepath.Join(dir, "own"), filepath.Join(dir, "other")
	a, b := &others{agents, own, quiet}, &others{agents, other, quiet}
	attachIn(t, own, "mine")
	attachIn(t, other, "theirs")
	known := func() []string {
		t.Helper()
		list, err := a.attachments(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, at := range list {
			ids = append(ids, at.ContainerID)
		}
		return ids
	}
	if ids := known(); slices.Contains(ids, "theirs") || slices.Contains(ids, "mine") {
		t.Errorf("before anybody has told of himself: %v", ids)
	}
	for _, o := range []*others{a, b, a} {
		if err := o.announce(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(agents, "odd"), []byte("no path"), 0o644); err != nil {
		t.Fatal(err)
	}
	if ids := known(); !slices.Contains(ids, "theirs") || slices.Contains(ids, "mine") {
		t.Errorf("attached by others: %v", ids)
	}
	if err := os.RemoveAll(other); err != nil {
		t.Fatal(err)
	}
	if ids := known(); slices.Contains(ids, "theirs") {
		t.Errorf("of an agent whose folder is gone: %v", ids)
	}
}
