//go:build peers && linux

package runtimes

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// cgroups is the control group below which the runtimes put their containers; podman's pods have another, of a name that can't be chosen.
const cgroups = "cleat-runtimes"

func TestMain(m *testing.M) {
	if inSandbox() {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	removeGroups(cgroups, "libpod_parent")
	os.Exit(code)
}

// inSandbox reports whether processes are this test's own, too.
func inSandbox() bool {
	return os.Getenv("CLEAT_SANDBOX") == "1" && os.Getenv("CLEAT_SANDBOX_PIDS") == "1"
}

// prepare puts empty folders in place of those that the runtimes have by a name that can't be changed.
func prepare() error {
	for _, dir := range []string{"/run/containerd", "/run/containers", "/run/libpod", "/run/runc", "/run/lock", "/run/cni", "/var/lib/containers",
		"/var/lib/containerd", "/etc/cni", "/etc/containerd", "/opt/cni"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return nil
}

// removeGroups removes control groups that have no process any more. Those that have one stay: they may be another's.
func removeGroups(names ...string) {
	for _, name := range names {
		for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
			roots, _ := filepath.Glob(pattern + name) // the pattern is right
			for _, root := range roots {
				for _, dir := range slices.Backward(folders(root)) {
					unix.Rmdir(dir)
				}
			}
		}
	}
}

// folders lists a folder and those below it, each before what it holds.
func folders(root string) []string {
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			list = append(list, path)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return list
}
