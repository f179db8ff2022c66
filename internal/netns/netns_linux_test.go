package netns_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tc := range []struct {
		name, path string
		want       error
	}{
		{"missing", filepath.Join(dir, "none"), netstate.ErrNotExist},
		{"below-a-file", filepath.Join(file, "x"), netstate.ErrNotExist},
		{"regular-file", file, netstate.ErrNotNamespace},
		{"fifo", fifo, netstate.ErrNotNamespace},
		{"folder", dir, netstate.ErrNotNamespace},
		{"socket", socket, netstate.ErrNotNamespace},
		{"mount-namespace", "/proc/self/ns/mnt", netstate.ErrNotNamespace},
		{"proc-file", "/proc/self/status", netstate.ErrNotNamespace},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, err := netns.Open(tc.path)
			if err == nil {
				h.Close()
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("Open(%s) = %v, want %v", tc.path, err, tc.want)
			}
		})
	}
}

func TestDoAndCookie(t *testing.T) {
	a, b := sandbox.Namespace(t), sandbox.Namespace(t)
	if same, err := a.Same(b); err != nil || same {
		t.Fatalf("two new namespaces: same %v, %v", same, err)
	}
	ca, err := a.Cookie()
	if err != nil {
		t.Fatal(err)
	}
	cb, err := netns.CookieOf(b.Path())
	if err != nil {
		t.Fatal(err)
	}
	if ca == cb && ca != 0 {
		t.Errorf("two namespaces have one cookie, %d", ca)
	}
	err = a.Do(func() error {
		cur, err := netns.Current()
		if err != nil {
			return err
		}
		defer cur.Close()
		if same, err := cur.Same(a); err != nil || !same {
			t.Errorf("inside Do: same %v, %v", same, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cur, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	if same, _ := cur.Same(a); same {
		t.Error("the caller's thread stayed in the namespace")
	}
}

func TestDoPanics(t *testing.T) {
	a := sandbox.Namespace(t)
	defer func() {
		if r := recover(); r != "boom" {
			t.Errorf("recovered %v, want boom", r)
		}
	}()
	_ = a.Do(func() error { panic("boom") })
}

func TestMount(t *testing.T) {
	sandbox.Require(t)
	path := filepath.Join("/run/netns", "mount-test")
	h, err := netns.Mount(path)
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	again, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	for range 2 { // the second time there is nothing to do
		if err := netns.Unmount(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := netns.Open(path); !errors.Is(err, netstate.ErrNotExist) {
		t.Errorf("after Unmount: %v", err)
	}
}
