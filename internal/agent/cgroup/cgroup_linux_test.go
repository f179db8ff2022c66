package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/agent/mountinfo"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

func TestHierarchies(t *testing.T) {
	v1 := []mountinfo.Mount{{Point: "/sys/fs/cgroup/cpu,cpuacct", Kind: "cgroup", Options: "rw,cpu,cpuacct"}, {Point: "/sys/fs/cgroup/memory", Kind: "cgroup", Options: "rw,memory"}}
	systemd := mountinfo.Mount{Point: "/sys/fs/cgroup/systemd", Kind: "cgroup", Options: "rw,name=systemd"}
	v2 := mountinfo.Mount{Point: "/sys/fs/cgroup/unified", Kind: "cgroup2", Options: "rw"}
	of := map[string]string{"cpu": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory"}
	for _, tt := range []struct {
		name   string
		mounts []mountinfo.Mount
		want   Tree
	}{
		{"version-1", v1, Tree{v1: of}},
		{"hybrid", append(v1[:2:2], v2), Tree{v1: of, others: []string{v2.Point}}},
		{"of-no-use", append(v1[:2:2], systemd), Tree{v1: of, others: []string{systemd.Point}}},
		{"version-2", []mountinfo.Mount{v2}, Tree{v1: map[string]string{}, v2: v2.Point}},
		{"none", []mountinfo.Mount{{Point: "/", Kind: "ext4", Options: "rw"}}, Tree{v1: map[string]string{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, hierarchies(tt.mounts), cmp.AllowUnexported(Tree{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	l := Limits{CPUShares: 512, CPUQuota: 50_000, Memory: 64 << 20, PIDs: 100}
	v1 := Tree{v1: map[string]string{"cpu": "/c", "memory": "/m", "pids": "/p"}}
	v2 := Tree{v2: "/u"}
	for _, tt := range []struct {
		name string
		tree Tree
		want string
	}{
		{"version 1", v1, "[{/c cpu.shares 512} {/c cpu.cfs_period_us 100000} {/c cpu.cfs_quota_us 50000} {/m memory.limit_in_bytes 67108864} {/p pids.max 100}]"},
		{"version 2", v2, "[{/u cpu.weight 20} {/u cpu.max 50000 100000} {/u memory.max 67108864} {/u pids.max 100}]"},
		{"none", Tree{}, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(tt.tree.settings(l)); got != tt.want {
				t.Errorf("settings %s\nwant %s", got, tt.want)
			}
		})
	}
}

// fakeV2 is a hierarchy of version 2 as far as files go.
func fakeV2(t *testing.T) Tree { return Tree{v2: t.TempDir()} }

func TestMakeInVersion2(t *testing.T) {
	tree := fakeV2(t)
	if err := tree.Make("cleat/pod1/c1", Limits{Memory: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cgroup.subtree_control", "cleat/cgroup.subtree_control", "cleat/pod1/cgroup.subtree_control", "cleat/pod1/c1/memory.max"} {
		if _, err := os.Stat(filepath.Join(tree.v2, file)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(tree.v2, "cleat/pod1/c1/cgroup.subtree_control")); err == nil {
		t.Error("a group that holds processes has controllers turned on below it, which version 2 refuses")
	}
}

func TestOOMKilled(t *testing.T) {
	tree := fakeV2(t)
	dir := filepath.Join(tree.v2, "a")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"oom 3\noom_kill 0\n": false, "oom 3\noom_kill 2\n": true, "": false} {
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := tree.OOMKilled("a"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if tree.OOMKilled("none") || (Tree{}).OOMKilled("a") {
		t.Error("what isn't there was killed")
	}
}

func TestNamesThatClimb(t *testing.T) {
	for _, name := range []string{"../a", "/a", "", "a/../../b"} {
		if err := fakeV2(t).Make(name, Limits{}); err == nil {
			t.Errorf("%q was made", name)
		}
	}
}

// TestGroup runs on whatever the machine has.
func TestGroup(t *testing.T) {
	sandbox.Require(t)
	tree, err := Mounted()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("cleat-test-%d/inner", os.Getpid())
	limits := Limits{Memory: 64 << 20, PIDs: 50, CPUShares: 100, CPUQuota: 50_000}
	if err := tree.Make(name, limits); err != nil {
		t.Fatal(err)
	}
	for _, s := range tree.settings(limits) {
		data, err := os.ReadFile(filepath.Join(s.point, name, s.file))
		if got := strings.TrimSpace(string(data)); got != s.value || err != nil {
			t.Errorf("%s is %q, %v; want %q", s.file, got, err, s.value)
		}
	}
	outer := filepath.Dir(name)
	t.Cleanup(func() {
		if err := tree.Remove(t.Context(), outer); err != nil {
			t.Log(err)
		}
	})
	entry, err := tree.Entry(name)
	if err != nil {
		t.Fatal(err)
	}
	files := entry.Tasks
	if entry.Dir != "" {
		files = []string{entry.Dir + "/cgroup.procs"}
	}
	if len(files) == 0 {
		sandbox.Need(t, "cgroup", "no hierarchy is mounted")
	}
	var script strings.Builder
	for _, f := range files {
		fmt.Fprintf(&script, "echo 0 > '%s'; ", f)
	}
	cmd := exec.Command("sh", "-c", script.String()+"echo in; exec sleep 600")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 8)
	if n, err := out.Read(word); err != nil || string(word[:n]) != "in\n" {
		t.Fatalf("%q, %v", word[:n], err)
	}
	pids, err := tree.Processes(outer)
	if err != nil || len(pids) != 1 || pids[0] != cmd.Process.Pid {
		t.Errorf("processes %v, %v, want %d", pids, err, cmd.Process.Pid)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := tree.Remove(t.Context(), outer); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended by %v", err)
	}
	if err := tree.Remove(t.Context(), outer); err != nil {
		t.Errorf("remove what is not there: %v", err)
	}
}
