package native

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/agent/agenttest"
	"github.com/cleat-cni/cleat/internal/agent/container"
)

// TestContract holds the runtime to what the one in memory keeps, too.
func TestContract(t *testing.T) {
	n := newNode(t)
	agenttest.Contract(t, n.Runtime)
}

// TestFilesOfAPodAreFoundAgain lets the agent die after the last sandbox of a pod was removed and before its files were.
func TestFilesOfAPodAreFoundAgain(t *testing.T) {
	n := newNode(t)
	p := pod("left")
	id, err := n.CreateSandbox(t.Context(), p, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.RemovePod(t.Context(), p); err == nil {
		t.Error("the files of a pod with a sandbox were removed")
	}
	if err := n.RemoveSandbox(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n.Close()
	n.open(t)
	pods, err := n.Pods(t.Context())
	want := []container.Pod{{UID: p.UID, Name: p.Name, Namespace: p.Namespace}}
	if diff := cmp.Diff(want, pods); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
