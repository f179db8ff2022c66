package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

func TestUnreadableRecordsAreMovedAside(t *testing.T) {
	n := newNode(t)
	n.Close()
	for id, text := range map[string]string{"broken": "{", "another": `{"id":"x"}`, "none": ""} {
		dir := filepath.Join(n.root, "sandboxes", id)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, sandboxFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.open(t)
	aside, err := os.ReadDir(filepath.Join(n.root, "unreadable"))
	if err != nil || len(aside) != 2 {
		t.Errorf("moved aside: %v, %v, want 2", aside, err)
	}
	if pods, err := n.Pods(t.Context()); err != nil || len(pods) > 0 {
		t.Errorf("pods: %v, %v", pods, err)
	}
}

// TestAgeOfAPod: what a new agent finds is as old as it is.
func TestAgeOfAPod(t *testing.T) {
	n := newNode(t)
	p := pod("old")
	if _, err := n.CreateSandbox(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	made := n.status(t, p).CreatedAt
	n.Close()
	n.open(t)
	if got := n.status(t, p).CreatedAt; made.IsZero() || !got.Equal(made) {
		t.Errorf("made at %v, for a new agent at %v", made, got)
	}
}

// TestClockThatWasSetBack: the newest is the one that was made last, whatever the clock said when the one before was.
func TestClockThatWasSetBack(t *testing.T) {
	n := newNode(t)
	p := pod("back", shell("main", "sleep 600"))
	first := n.run(t, p)
	tomorrow := time.Now().Add(24 * time.Hour)
	if err := n.update(n.find(first), func(rec *sandboxRecord) { rec.CreatedAt = tomorrow }); err != nil {
		t.Fatal(err)
	}
	c := n.findContainer(n.status(t, p).FindContainer("main").ID)
	if err := n.updateContainer(c, func(rec *containerRecord) { rec.CreatedAt = tomorrow }); err != nil {
		t.Fatal(err)
	}
	if err := n.StopSandbox(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second, err := n.CreateSandbox(t.Context(), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	id, err := n.StartContainer(t.Context(), container.Start{Pod: p, SandboxID: second, Container: &p.Spec.Containers[0], Command: p.Spec.Containers[0].Command, RestartCount: 1})
	if err != nil {
		t.Fatal(err)
	}
	if st := n.status(t, p); st.Sandboxes[0].ID != second || st.FindContainer("main").ID != id {
		t.Errorf("the newest are %s and %s, want %s and %s", st.Sandboxes[0].ID, st.FindContainer("main").ID, second, id)
	}
}

// TestRecordLost: a pod whose record was spoilt does not run on beside its successor.
func TestRecordLost(t *testing.T) {
	for name, spec := range map[string]func(*v1.PodSpec){
		"own-namespaces":  func(*v1.PodSpec) {},
		"host-network":    func(s *v1.PodSpec) { s.HostNetwork = true },
		"host-namespaces": func(s *v1.PodSpec) { s.HostNetwork, s.HostPID, s.HostIPC = true, true, true },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			p := pod("lost", shell("main", "sleep 600"))
			spec(&p.Spec)
			id := n.run(t, p)
			pause := n.find(id).rec.Pause
			process := n.findContainer(n.status(t, p).FindContainer("main").ID).rec.Process
			n.Close()
			if err := os.WriteFile(filepath.Join(n.root, "sandboxes", id, sandboxFile), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			n.open(t)
			if pause.Alive() || process.Alive() {
				t.Errorf("pause runs: %v, container runs: %v", pause.Alive(), process.Alive())
			}
			if err := errors.Join(n.Collect(t.Context()), n.RemovePod(t.Context(), p)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFIFOsInTheFolder: what holds whoever opens it, in the place of a record or a log, holds no start.
func TestFIFOsInTheFolder(t *testing.T) {
	for name, path := range map[string]func(*ctr) string{
		"sandbox": func(c *ctr) string { return filepath.Join("sandboxes", c.rec.SandboxID, sandboxFile) },
		"container": func(c *ctr) string {
			return filepath.Join("sandboxes", c.rec.SandboxID, "containers", c.rec.ID, containerFile)
		},
		"exit": func(c *ctr) string {
			return filepath.Join("sandboxes", c.rec.SandboxID, "containers", c.rec.ID, "exit.json")
		},
		"pod": func(c *ctr) string { return filepath.Join("pods", string(c.uid), podFile) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			p := pod("fifo", shell("main", "exit 0"))
			n.run(t, p)
			n.await(t, p)
			c := n.findContainer(n.status(t, p).FindContainer("main").ID)
			n.Close()
			file := filepath.Join(n.root, path(c))
			if err := errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)); err != nil {
				t.Fatal(err)
			}
			release(t, file)
			n.open(t)
			if err := errors.Join(n.Collect(t.Context()), n.removeAll(t.Context(), p)); err != nil {
				t.Error(err)
			}
		})
	}
}

// release lets whoever hangs at a FIFO go on when it has taken too long, and fails the test.
func release(t *testing.T, fifo string) {
	timer := time.AfterFunc(5*time.Second, func() {
		t.Error("it hangs at ", fifo)
		if f, err := os.OpenFile(fifo, os.O_RDWR, 0); err == nil {
			f.Close()
		}
	})
	t.Cleanup(func() { timer.Stop() })
}

// removeAll removes what is left of a pod.
func (n *node) removeAll(ctx context.Context, p *v1.Pod) error {
	st, err := n.PodStatus(ctx, p.UID)
	errs := []error{err}
	for _, s := range st.Sandboxes {
		errs = append(errs, n.RemoveSandbox(ctx, s.ID))
	}
	return errors.Join(append(errs, n.RemovePod(ctx, p))...)
}
