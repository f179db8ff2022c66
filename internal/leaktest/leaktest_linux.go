package leaktest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// prefix is what the folders for temporary files are called; the process's number and a dash follow.
const prefix = "leaktest"

// ownTemp returns the process's own folder for temporary files. Only a program's start can give it one without a change that
// all of it sees, so it begins again. child is true in a process that one with such a folder has started.
func ownTemp() (dir string, child bool, err error) {
	mine := fmt.Sprintf("%s%d-", prefix, os.Getpid())
	dir = os.TempDir()
	switch base := filepath.Base(dir); {
	case strings.HasPrefix(base, mine):
		return dir, false, nil
	case strings.HasPrefix(base, prefix):
		return "", true, nil
	}
	if dir, err = os.MkdirTemp("", mine); err != nil {
		return "", false, err
	}
	self, err := os.Executable()
	if err != nil {
		return "", false, err
	}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TMPDIR=") })
	return "", false, os.NewSyscallError("execve", unix.Exec(self, os.Args, append(env, "TMPDIR="+dir)))
}

// processThings lists descriptors, threads elsewhere and children.
func processThings() []string {
	var things []string
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // that of the folder itself is closed
			things = append(things, "descriptor "+e.Name()+" of "+target)
		}
	}
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return append(things, err.Error())
	}
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		return append(things, err.Error())
	}
	for _, task := range tasks {
		if ns, err := os.Readlink(task + "/ns/net"); err == nil && ns != home {
			things = append(things, fmt.Sprintf("thread %s in the namespace %s", filepath.Base(task), ns))
		}
		// Without CONFIG_PROC_CHILDREN there is no such file.
		children, err := os.ReadFile(task + "/children")
		if err != nil {
			continue
		}
		for pid := range strings.FieldsSeq(string(children)) {
			name, err := os.ReadFile("/proc/" + pid + "/comm")
			if err == nil {
				things = append(things, fmt.Sprintf("process %s %s", pid, strings.TrimSpace(string(name))))
			}
		}
	}
	return things
}
