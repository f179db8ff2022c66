package netns_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/leaktest"
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

const roleKey = "CLEAT_NETNS_ROLE"

// TestMain, with a role, is a process whose goroutines all run on the main thread while they can.
func TestMain(m *testing.M) {
	path := os.Getenv(roleKey)
	if path == "" {
		leaktest.Main(m)
	}
	if err := visit(path); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// visit goes into the namespace at path, and looks whether a thread has stayed there.
func visit(path string) error {
	before, err := threads()
	if err != nil {
		return err
	}
	h, err := netns.Open(path)
	if err != nil {
		return err
	}
	for range 100 {
		err := h.Do(func() error {
			if unix.Gettid() == os.Getpid() {
				return errors.New("the main thread was moved")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	after, err := threads()
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fmt.Errorf("threads by their namespaces: %v, before %v", after, before)
	}
	return nil
}

// threads are the namespaces of this process's threads.
func threads() (map[string]bool, error) {
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	in := map[string]bool{}
	for _, task := range tasks {
		ns, err := os.Readlink(task)
		if err == nil { // else it has just ended
			in[ns] = true
		}
	}
	return in, err
}

// TestThreadsGoBack: after a visit all threads are where they were, and the main thread, which the runtime can't end, is never moved.
func TestThreadsGoBack(t *testing.T) {
	ns := sandbox.Namespace(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleKey+"="+ns.Path(), "GOMAXPROCS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestInSeveralNamespaces(t *testing.T) {
	sandbox.Require(t)
	holder := exec.Command("unshare", "--uts", "--net", "sh", "-c", "hostname inside; echo ready; exec sleep 600")
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill() // it sleeps
		_ = holder.Wait()         // and was killed
	})
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	of := func(name string, kind int) netns.Namespace {
		return netns.Namespace{Path: fmt.Sprintf("/proc/%d/ns/%s", holder.Process.Pid, name), Type: kind}
	}
	var text []byte
	err = netns.In([]netns.Namespace{of("uts", unix.CLONE_NEWUTS), of("net", unix.CLONE_NEWNET)}, func() error {
		var err error
		text, err = exec.Command("sh", "-c", "hostname; ls /proc/self/net/dev; grep -c : /proc/self/net/dev").Output()
		return err
	})
	if want := "inside\n/proc/self/net/dev\n1\n"; err != nil || string(text) != want {
		t.Errorf("in the namespaces: %q, %v, want %q", text, err, want)
	}
	err = netns.In([]netns.Namespace{{Path: "/proc/self/ns/none", Type: unix.CLONE_NEWUTS}}, func() error {
		t.Error("it ran without its namespace")
		return nil
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a namespace that isn't there: %v", err)
	}
}
