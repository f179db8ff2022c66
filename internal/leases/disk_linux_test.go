package leases

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// smallDisk returns a pool on a file system of its own.
func smallDisk(t *testing.T, options string) netstate.Pool {
	t.Helper()
	sandbox.Require(t)
	p := poolOf(t, crowd4, crowd6)
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", p.Dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(p.Dir, 0); err != nil {
			t.Error(err)
		}
	})
	return p
}

// fill writes a file until the disk is full, and returns how to make room.
func fill(t *testing.T, p netstate.Pool) func() {
	t.Helper()
	path := filepath.Join(p.Dir, "ballast")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk did not fill up: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestB003FullDisk(t *testing.T) {
	s, p := newStore(t, nil), smallDisk(t, "size=192k")
	add(t, s, p, "c1")
	add(t, s, p, "c2")
	before := folderOf(t, p)
	room := fill(t, p)
	_, err := s.Reserve(t.Context(), p, owner("c3"), false)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), p.Dir) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, folderOf(t, p)); diff != "" {
		t.Errorf("something is left (-want +got):\n%s", diff)
	}
	checkStore(t, p)
	// What was freed is used again, so a full disk does not end the store.
	del(t, s, p, "c1")
	add(t, s, p, "c3")
	room()
	add(t, s, p, "c4")
	if got := leaseFiles(t, p); len(got) != 6 {
		t.Errorf("%q", got)
	}
	checkStore(t, p)
}

// TestFullDiskFromTheStart has no room for the index, and none for a lease.
func TestFullDiskFromTheStart(t *testing.T) {
	s, p := newStore(t, nil), smallDisk(t, "size=96k")
	room := fill(t, p)
	if _, err := s.Reserve(t.Context(), p, owner("c1"), false); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v", err)
	}
	del(t, s, p, "c1")
	if got := folderOf(t, p); len(got) > 0 {
		t.Errorf("left %q", got)
	}
	room()
	add(t, s, p, "c1")
	checkStore(t, p)
}

// TestNoInodes lets the second link of an ADD fail.
func TestNoInodes(t *testing.T) {
	s, p := newStore(t, nil), smallDisk(t, "nr_inodes=13")
	var err error
	n := 0
	for ; err == nil && n < 20; n++ {
		_, err = s.Reserve(t.Context(), p, owner("c"+string(rune('a'+n))), false)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("after %d ADDs error %v", n, err)
	}
	checkPairs(t, p)
	del(t, s, p, "ca")
	checkPairs(t, p)
	checkStore(t, p)
}

func TestReadOnlyDisk(t *testing.T) {
	s, p := newStore(t, nil), smallDisk(t, "size=1m")
	add(t, s, p, "c1")
	before := folderOf(t, p)
	if err := unix.Mount("", p.Dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := s.Reserve(t.Context(), p, owner("c2"), false)
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), p.Dir) {
		t.Errorf("ADD: error %v", err)
	}
	if err := s.Release(t.Context(), p, owner("c1")); !errors.Is(err, unix.EROFS) {
		t.Errorf("DEL: error %v", err)
	}
	if leases, err := s.Reserve(t.Context(), p, owner("c2"), true); err != nil || addresses(leases) != "10.9.0.3 fd00::3" {
		t.Errorf("dry run: %v, error %v", leases, err)
	}
	if diff := cmp.Diff(before, folderOf(t, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnreadableFile proves that a file that can't be read keeps nobody else from ADD, DEL and GC.
func TestUnreadableFile(t *testing.T) {
	s, p := newStore(t, nil), smallDisk(t, "size=1m")
	put(t, p, "10.9.0.2", "c1\r\neth0")
	put(t, p, "fd00::2", "c1\r\neth0")
	unreadable := put(t, p, "10.9.0.3", "c2\r\neth0")
	// Root may read every file, but this one's first page is nobody's memory: reading it fails.
	if err := unix.Mount("/proc/self/mem", unreadable, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(unreadable, 0)
	if _, err := s.Reserve(t.Context(), p, owner("c3"), false); err != nil {
		t.Errorf("ADD: error %v", err)
	}
	del(t, s, p, "c1")
	if err := s.Release(t.Context(), p, owner("nobody")); err == nil || !strings.Contains(err.Error(), unreadable) {
		t.Errorf("DEL of one who may own the unreadable file: error %v", err)
	}
	freed, err := s.Collect(t.Context(), p, nil, false)
	if err == nil || !strings.Contains(err.Error(), unreadable) || addresses(freed) != "10.9.0.4 fd00::3" {
		t.Errorf("GC: freed %v, error %v", freed, err)
	}
}
