package libcni_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
)

// smallDisk mounts a file system of its own at dir.
func smallDisk(t *testing.T, dir, options string) {
	t.Helper()
	sandbox.Require(t)
	if err := errors.Join(os.MkdirAll(dir, 0o755), syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,"+options)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// fill leaves no room on a small disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, "ballast"), bytes.Repeat([]byte("x"), 1<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk did not fill up: %v", err)
	}
}

// TestFullDisk: wherever there is no room for what is written, ADD says which file, nothing stays attached or half-written, and DEL succeeds.
func TestFullDisk(t *testing.T) {
	long := `{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/16"}],"more":"` + strings.Repeat("x", 64<<10) + `"}`
	for _, tc := range []struct {
		name string
		disk string // below the state folder
		prep func(t *testing.T, k *kit, dir string)
		path string // that the error names, below the state folder
		ran  []string
	}{
		{"folder-of-records", ".", func(t *testing.T, _ *kit, dir string) { fill(t, dir) }, "cleat/adding/net1-c1-eth0", nil},
		{"intent", "cleat/adding", func(t *testing.T, _ *kit, dir string) { fill(t, dir) }, "cleat/adding/net1-c1-eth0", nil},
		{"result", "cleat/adding", func(_ *testing.T, k *kit, _ string) {
			k.plugins["a"] = verbs{cni.VerbAdd: answers(long, nil)}
		}, "cleat/adding/net1-c1-eth0", []string{"ADD a", "DEL a"}},
		{"record-on-another-disk", "results", func(t *testing.T, _ *kit, dir string) { fill(t, dir) }, "results/net1-c1-eth0", []string{"ADD a", "DEL a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t, lockDir(t.TempDir()))
			dir := filepath.Join(k.state, tc.disk)
			smallDisk(t, dir, "size=32k")
			tc.prep(t, k, dir)
			list := network(t, "1.1.0", "a")
			_, err := k.AddNetworkList(t.Context(), list, attachment())
			if !errors.Is(err, syscall.ENOSPC) || cni.CodeOf(err) != cni.CodeIO || !strings.Contains(err.Error(), filepath.Join(k.state, tc.path)) {
				t.Errorf("ADD: error %v (code %d), want code 5 with %s", err, cni.CodeOf(err), tc.path)
			}
			if diff := cmp.Diff(tc.ran, k.lines()); diff != "" {
				t.Errorf("ran (-want +got):\n%s", diff)
			}
			k.mustDel(t, list, attachment())
			records, intents := k.stored(t)
			if left := strings.Join(append(records, intents...), " "); strings.TrimSpace(strings.ReplaceAll(left, "ballast", "")) != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// TestDelOnAFullDisk: what was attached before the disk filled up can be deleted, by its record too.
func TestDelOnAFullDisk(t *testing.T) {
	k := newKit(t)
	smallDisk(t, k.state, "size=64k")
	list := network(t, "1.1.0", "a")
	k.mustAdd(t, list, attachment())
	fill(t, k.state)
	all, err := k.Attachments(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("attachments %v, error %v", all, err)
	}
	if err := k.DelAttachment(t.Context(), all[0]); err != nil {
		t.Error(err)
	}
	k.mustDel(t, list, attachment())
	if records, intents := k.stored(t); len(records)+len(intents) > 0 {
		t.Errorf("left: %v %v", records, intents)
	}
}

// TestNoRoomForALock: nothing is done that others could do at the same time; the lock that there is serves on.
func TestNoRoomForALock(t *testing.T) {
	locks := t.TempDir()
	k := newKit(t, lockDir(locks))
	smallDisk(t, locks, "nr_inodes=2") // the folder itself and one lock
	list := network(t, "1.1.0", "a")
	k.mustAdd(t, list, attachment())
	other := attachment()
	other.ContainerID = "c2"
	k.lines()
	if _, err := k.AddNetworkList(t.Context(), list, other); !errors.Is(err, syscall.ENOSPC) || cni.CodeOf(err) != cni.CodeIO || !strings.Contains(err.Error(), locks) {
		t.Errorf("ADD: error %v", err)
	}
	if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("GC: error %v", err)
	}
	if ran := k.lines(); ran != nil {
		t.Errorf("ran %v", ran)
	}
	k.mustDel(t, list, attachment())
}
