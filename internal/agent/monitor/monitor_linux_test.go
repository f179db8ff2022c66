package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/agent/cgroup"
	"github.com/cleat-cni/cleat/internal/agent/spawn"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

const roleKey = "CLEAT_MONITOR_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleKey) != "" {
		os.Exit(Main(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// container is one under a monitor of its own.
type container struct {
	dir   string
	child *spawn.Child
	said  Started
}

// start starts a monitor in a new process and waits for what it tells.
func start(t *testing.T, spec Spec) *container {
	t.Helper()
	sandbox.Require(t)
	c := &container{dir: t.TempDir()}
	if spec.Log.Path == "" {
		spec.Log.Path = filepath.Join(c.dir, "0.log")
	}
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, SpecFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.child, err = spawn.Start(t.Context(), spawn.Command{
		Path: self, Name: Name, Args: []string{c.dir}, Env: append(os.Environ(), roleKey+"=1"), Files: []*os.File{w},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.child.Abandon)
	if _, err := ReadExit(c.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("exit before the start: %v", err)
	}
	if err := c.child.Go(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(r).Decode(&c.said); err != nil {
		t.Fatal(err)
	}
	return c
}

// exit waits for the end.
func (c *container) exit(t *testing.T) (Exit, string) {
	t.Helper()
	if err := c.child.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := ReadExit(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(c.dir, "0.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(log)) {
		_, rest, _ := strings.Cut(line, " ")
		text.WriteString(rest)
	}
	return e, text.String()
}

func group(t *testing.T) string {
	t.Helper()
	tree, err := cgroup.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("cleat-test-%d-%s", os.Getpid(), strings.ToLower(filepath.Base(t.Name())))
	if err := tree.Make(name, cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pids, err := tree.Processes(name); err != nil || len(pids) > 0 {
			t.Errorf("left in the control group: %v, %v", pids, err)
		}
		if err := tree.Remove(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func host(t *testing.T, script string, env ...string) Spec {
	return Spec{ID: "c1", Cgroup: group(t), Host: &HostCommand{Command: []string{"sh", "-c", script}, Env: env}}
}

func TestHostCommand(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		code         int
		log          string
	}{
		{"prints-and-ends", "echo out; echo $X; pwd; exit 3", 3, "stdout F out\nstdout F 1\nstdout F /\n"},
		{"on-stderr", "echo oops >&2", 0, "stderr F oops\n"},
		{"killed-by-a-signal", "kill -9 $$", 137, ""},
		{"leaves-a-child-with-its-output", "sleep 600 & echo done", 0, "stdout F done\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, host(t, tt.script, "X=1", "PATH="+os.Getenv("PATH")))
			if c.said.Error != "" || c.said.Process.IsZero() {
				t.Errorf("started: %+v", c.said)
			}
			e, log := c.exit(t)
			if e.Code != tt.code || log != tt.log || e.Error != "" || time.Since(e.At) > time.Minute {
				t.Errorf("exit %+v, log %q, want %d, %q", e, log, tt.code, tt.log)
			}
			told, err := os.Stat(filepath.Join(c.dir, ExitFile))
			if err != nil {
				t.Fatal(err)
			}
			if after := told.ModTime().Sub(e.At); after >= linger {
				t.Errorf("told %v after the end: what it left was waited for", after)
			}
		})
	}
}

func TestHostCommandEntersNamespaces(t *testing.T) {
	sandbox.Require(t)
	holder := exec.Command("unshare", "--uts", "--net", "--ipc", "sh", "-c", "hostname in-the-pod; echo ready; exec sleep 600")
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Process.Kill(); holder.Wait() })
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	spec := host(t, "hostname; ls /sys/class/net | wc -l; ip -o link | wc -l", "PATH="+os.Getenv("PATH"))
	for name, flag := range map[string]int{"uts": unix.CLONE_NEWUTS, "net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC} {
		spec.Host.Namespaces = append(spec.Host.Namespaces, netns.Namespace{Path: fmt.Sprintf("/proc/%d/ns/%s", holder.Process.Pid, name), Type: flag})
	}
	_, log := start(t, spec).exit(t)
	if !strings.HasPrefix(log, "stdout F in-the-pod\n") || !strings.HasSuffix(log, "stdout F 1\n") {
		t.Errorf("in the namespaces: %q, want the hostname and one link", log)
	}
}

func TestStartErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec Spec
		want string
	}{
		{"no-program", Spec{Host: &HostCommand{Command: []string{"/does/not/exist"}}}, "no such file"},
		{"not-in-path", Spec{Host: &HostCommand{Command: []string{"nope"}, Env: []string{"PATH=/bin"}}}, "find nope in /bin"},
		{"no-command", Spec{Host: &HostCommand{}}, "is empty"},
		{"no-namespace", Spec{Host: &HostCommand{Command: []string{"true"}, Namespaces: []netns.Namespace{{Path: "/proc/0/ns/net", Type: unix.CLONE_NEWNET}}}}, "enter namespace"},
		{"neither", Spec{}, "neither"},
		{"no-runc", Spec{Runc: &RuncSpec{Path: "/does/not/exist", Root: "/tmp/none", Bundle: "/tmp/none", ID: "x"}}, "runc is not installed"},
		{"no-log", Spec{Log: LogSpec{Path: "/proc/none/0.log"}, Host: &HostCommand{Command: []string{"true"}}}, "log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Cgroup = group(t)
			c := start(t, tt.spec)
			e, _ := c.exit(t)
			if e.Code != notStarted || !strings.Contains(e.Error, tt.want) || c.said.Error != e.Error {
				t.Errorf("exit %+v, told %q, want code %d and %q", e, c.said.Error, notStarted, tt.want)
			}
		})
	}
}

func TestMonitorWithoutAgentDoesNothing(t *testing.T) {
	sandbox.Require(t)
	marker := filepath.Join(t.TempDir(), "ran")
	dir := t.TempDir()
	data, err := json.Marshal(host(t, "touch "+marker))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, SpecFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child, err := spawn.Start(t.Context(), spawn.Command{Path: self, Name: Name, Args: []string{dir}, Env: append(os.Environ(), roleKey+"=1")})
	if err != nil {
		t.Fatal(err)
	}
	child.Abandon()
	if _, err := os.Stat(marker); err == nil || child.Alive() {
		t.Errorf("ran: %v, alive: %v", err == nil, child.Alive())
	}
}

func TestBadSpec(t *testing.T) {
	for name, text := range map[string]string{"cut short": "{", "no file": ""} {
		dir := t.TempDir()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, SpecFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := run(t.Context(), []string{dir}); err == nil || !strings.Contains(err.Error(), SpecFile) {
			t.Errorf("%s: %v, want the file's name", name, err)
		}
	}
	if err := run(t.Context(), nil); err == nil {
		t.Error("no folder is no error")
	}
}

// TestRunc runs a container of runc.
func TestRunc(t *testing.T) {
	sandbox.Require(t)
	runc, box := program(t, "runc"), program(t, "busybox")
	for _, tt := range []struct {
		name, script string
		code         int
		log, fault   string
	}{
		{"ends", "echo hi; exit 5", 5, "stdout F hi\n", ""},
		{"no-program", "", notStarted, "", "runc: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bundle := t.TempDir()
			args := []string{"/bin/busybox", "sh", "-c", tt.script}
			if tt.script == "" {
				args = []string{"/bin/nothing"}
			}
			makeBundle(t, bundle, box, args)
			c := start(t, Spec{ID: "c1", Cgroup: group(t), Runc: &RuncSpec{Path: runc, Root: t.TempDir(), Bundle: bundle, ID: "c1"}})
			e, log := c.exit(t)
			if e.Code != tt.code || tt.fault == "" && log != tt.log || !strings.Contains(e.Error, tt.fault) || (e.Error == "") != (tt.fault == "") {
				t.Errorf("exit %+v, log %q, want %d, %q, %q", e, log, tt.code, tt.log, tt.fault)
			}
		})
	}
}

// program finds a program that this machine may lack.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		sandbox.Need(t, name, err.Error())
	}
	return path
}

func makeBundle(t *testing.T, dir, busybox string, args []string) {
	t.Helper()
	if err := os.MkdirAll(dir+"/rootfs/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/rootfs/bin/busybox", data, 0o755); err != nil {
		t.Fatal(err)
	}
	conf, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2", "root": map[string]any{"path": "rootfs"},
		"process": map[string]any{"args": args, "cwd": "/", "env": []string{"PATH=/bin"}, "user": map[string]any{"uid": 0, "gid": 0}},
		"mounts":  []any{map[string]any{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux":   map[string]any{"namespaces": []any{map[string]any{"type": "pid"}, map[string]any{"type": "mount"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config.json", conf, 0o600); err != nil {
		t.Fatal(err)
	}
}
