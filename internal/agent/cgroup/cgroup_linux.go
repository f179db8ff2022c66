// Package cgroup bounds and ends groups of processes: those of a pod, and of a container without an image in it. Containers from images
// have theirs from runc, below the pod's. It works on version 1, version 2, and both at once ("hybrid"), where version 1
// has the controllers.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/agent/mountinfo"
)

// Tree is the hierarchies of this machine. The zero Tree has none: groups can be made in it, which bound nothing.
type Tree struct {
	v1 map[string]string // mount points by controller
	v2 string            // mount point; "" if it is not there or has no controller of use
	// others are mount points of hierarchies that are of no use here, and into which runc puts what it runs all the same.
	others []string
}

// controllers are those that limits or killing need.
func controllers() []string { return []string{"cpu", "memory", "pids", "freezer"} }

// Mounted returns the hierarchies that are mounted.
func Mounted() (Tree, error) {
	mounts, err := mountinfo.Read()
	if err != nil {
		return Tree{}, err
	}
	return hierarchies(mounts), nil
}

// hierarchies finds those of use among all mounts: where version 1 has controllers, version 2 has none.
func hierarchies(mounts []mountinfo.Mount) Tree {
	t := Tree{v1: map[string]string{}}
	for _, m := range mounts {
		switch m.Kind {
		case "cgroup2":
			t.v2 = m.Point
		case "cgroup":
			used := false
			for option := range strings.SplitSeq(m.Options, ",") {
				if slices.Contains(controllers(), option) {
					t.v1[option], used = m.Point, true
				}
			}
			if !used {
				t.others = append(t.others, m.Point)
			}
		}
	}
	if len(t.v1) > 0 && t.v2 != "" {
		t.v2, t.others = "", append(t.others, t.v2)
	}
	return t
}

// Unified reports whether version 2 has the controllers.
func (t Tree) Unified() bool { return t.v2 != "" }

// Limits bound a group. Zero values bound nothing.
type Limits struct {
	CPUShares uint64 // its share among others, 2 to 262144; the kernel's default is 1024
	CPUQuota  int64  // microseconds of CPU in each period of 100 ms
	Memory    int64  // bytes
	PIDs      int64  // processes and threads
}

// cpuPeriod is the period of CPUQuota, in microseconds.
const cpuPeriod = 100_000

// folders are those of a group, one in each hierarchy. The name is a path without dots.
func (t Tree) folders(name string) ([]string, error) {
	if !filepath.IsLocal(name) || filepath.Clean(name) != name {
		return nil, fmt.Errorf("control group %q: not a name", name)
	}
	if t.v2 != "" {
		return []string{filepath.Join(t.v2, name)}, nil
	}
	var list []string
	for _, c := range controllers() {
		if point, ok := t.v1[c]; ok && !slices.Contains(list, filepath.Join(point, name)) {
			list = append(list, filepath.Join(point, name))
		}
	}
	return list, nil
}

// everywhere are the folders of a group, and those that runc has made for it in other hierarchies.
func (t Tree) everywhere(name string) ([]string, error) {
	list, err := t.folders(name)
	if err != nil {
		return nil, err
	}
	for _, point := range t.others {
		list = append(list, filepath.Join(point, name))
	}
	return list, nil
}

// Make makes a group with its parents, and sets its limits. One that is there is given the limits.
func (t Tree) Make(name string, l Limits) error {
	folders, err := t.folders(name)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if err := os.MkdirAll(f, 0o755); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
	}
	if t.v2 != "" {
		if err := t.delegate(name); err != nil {
			return err
		}
	}
	for _, s := range t.settings(l) {
		if err := os.WriteFile(filepath.Join(s.point, name, s.file), []byte(s.value), 0o644); err != nil {
			return fmt.Errorf("limit control group %s: %w", name, err)
		}
	}
	return nil
}

// delegate turns the controllers on in all parents of a group of version 2.
func (t Tree) delegate(name string) error {
	parents := []string{t.v2}
	for part := range strings.SplitSeq(filepath.Dir(name), "/") {
		if part != "." {
			parents = append(parents, filepath.Join(parents[len(parents)-1], part))
		}
	}
	for _, dir := range parents {
		for _, c := range []string{"cpu", "memory", "pids"} {
			err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644)
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // this kernel hasn't the controller
				return fmt.Errorf("turn on %s below %s: %w", c, dir, err)
			}
		}
	}
	return nil
}

type setting struct{ point, file, value string }

func (t Tree) settings(l Limits) []setting {
	var list []setting
	set := func(controller, v1File, v2File, v1Value, v2Value string) {
		if t.v2 != "" {
			list = append(list, setting{t.v2, v2File, v2Value})
		} else if point, ok := t.v1[controller]; ok {
			list = append(list, setting{point, v1File, v1Value})
		}
	}
	if l.CPUShares > 0 {
		set("cpu", "cpu.shares", "cpu.weight", strconv.FormatUint(l.CPUShares, 10), strconv.FormatUint(weight(l.CPUShares), 10))
	}
	if l.CPUQuota > 0 {
		quota := strconv.FormatInt(l.CPUQuota, 10)
		if t.v2 == "" {
			set("cpu", "cpu.cfs_period_us", "", strconv.Itoa(cpuPeriod), "")
		}
		set("cpu", "cpu.cfs_quota_us", "cpu.max", quota, quota+" "+strconv.Itoa(cpuPeriod))
	}
	if l.Memory > 0 {
		bytes := strconv.FormatInt(l.Memory, 10)
		set("memory", "memory.limit_in_bytes", "memory.max", bytes, bytes)
	}
	if l.PIDs > 0 {
		pids := strconv.FormatInt(l.PIDs, 10)
		set("pids", "pids.max", "pids.max", pids, pids)
	}
	return list
}

// weight is the weight of version 2, 1 to 10000, for shares of version 1, as runc and the kubelet convert them.
func weight(shares uint64) uint64 {
	shares = min(max(shares, 2), 262144)
	return 1 + (shares-2)*9999/262142
}

// Entry is the way into a group for a process that is about to be started.
type Entry struct {
	// Tasks are files of version 1 into which the thread that starts the process writes 0: it joins, and the process with it.
	Tasks []string
	// Dir is the folder of version 2 in which the process is made (CLONE_INTO_CGROUP, Linux 5.7); "" with version 1.
	Dir string
}

// Entry returns the way into a group.
func (t Tree) Entry(name string) (Entry, error) {
	folders, err := t.folders(name)
	if err != nil || len(folders) == 0 {
		return Entry{}, err
	}
	if t.v2 != "" {
		return Entry{Dir: folders[0]}, nil
	}
	for i := range folders {
		folders[i] = filepath.Join(folders[i], "tasks")
	}
	return Entry{Tasks: folders}, nil
}

// Processes lists the processes of a group and of those below it. A group that isn't there has none.
func (t Tree) Processes(name string) ([]int, error) {
	folders, err := t.folders(name)
	if err != nil || len(folders) == 0 {
		return nil, err
	}
	var list []int
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.Name() != "cgroup.procs" {
				return err
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil // it was just removed
			}
			for f := range strings.FieldsSeq(string(data)) {
				if pid, err := strconv.Atoi(f); err == nil && pid > 0 && !slices.Contains(list, pid) {
					list = append(list, pid)
				}
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list control group %s: %w", name, err)
		}
	}
	return list, nil
}

// Children lists the groups directly below one, sorted. A group that isn't there has none.
func (t Tree) Children(name string) ([]string, error) {
	folders, err := t.everywhere(name)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list control group %s: %w", name, err)
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(list, e.Name()) {
				list = append(list, e.Name())
			}
		}
	}
	slices.Sort(list)
	return list, nil
}

// again is how long after a kill the group is looked at once more: the dead leave it when they are reaped.
const again = 5 * time.Millisecond

// Remove kills what runs in a group and below it, but not the caller's process, and removes it. What isn't there is success; it is tried until ctx ends.
func (t Tree) Remove(ctx context.Context, name string) error {
	folders, err := t.everywhere(name)
	if err != nil {
		return err
	}
	for {
		pids, err := t.Processes(name)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if pid == os.Getpid() { // a thread of it started the process from inside, and is about to end
				continue
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d of control group %s: %w", pid, name, err)
			}
		}
		var errs []error
		for _, f := range folders {
			errs = append(errs, removeTree(f))
		}
		err = errors.Join(errs...)
		if err == nil || !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(again):
		}
	}
}

// removeTree removes a folder of groups, the inner ones first. Their files are no files that could be removed.
func removeTree(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove control group %s: %w", folder, err)
	}
	return nil
}

// OOMKilled reports whether the kernel killed a process of the group for want of memory (version 1: Linux 4.13).
func (t Tree) OOMKilled(name string) bool {
	file := filepath.Join(t.v2, name, "memory.events")
	if t.v2 == "" {
		point, ok := t.v1["memory"]
		if !ok {
			return false
		}
		file = filepath.Join(point, name, "memory.oom_control")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}
	return false
}
