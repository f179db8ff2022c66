package kernel_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// TestIptablesEnvironment: of a hostile environment the programs see nothing.
func TestIptablesEnvironment(t *testing.T) {
	m := newMachine(t)
	for _, name := range []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "XTABLES_LIBDIR", "XTABLES_LOCKFILE", "IPTABLES_LIB_DIR", "IFS", "ENV", "BASH_ENV", "TMPDIR", "CNI_ARGS"} {
		t.Setenv(name, "/nowhere")
	}
	seen := filepath.Join(t.TempDir(), "environment")
	dir, _ := programs(t, "env >"+seen, "exit 0")
	if err := m.session(dir).Apply(t.Context(), published("c1", 8001)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"_", "PWD", "OLDPWD", "SHLVL"}, name) { // the shell's own
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"LC_ALL", "PATH"}, names); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

// TestIptablesPath: a program is not taken from a folder of $PATH that is relative or that everybody can write to, nor one that everybody can.
func TestIptablesPath(t *testing.T) {
	m := newMachine(t)
	here, openFolder, openFile := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{here, openFolder, openFile} {
		for _, name := range []string{"iptables-save", "iptables-restore"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ntouch "+dir+"/ran\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Chmod(openFolder, 0o777), os.Chmod(openFile+"/iptables-save", 0o757), os.Chmod(openFile+"/iptables-restore", 0o757)); err != nil {
		t.Fatal(err)
	}
	good, calls := programs(t, "exit 0", "exit 0")
	t.Chdir(here)
	t.Setenv("PATH", strings.Join([]string{".", "", openFolder, openFile, good, os.Getenv("PATH")}, ":"))
	if err := m.session("").Apply(t.Context(), published("c1", 8001)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{here, openFolder, openFile} {
		if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
			t.Errorf("the program in %s was run", dir)
		}
	}
	if text, err := os.ReadFile(calls); err != nil || len(text) == 0 {
		t.Errorf("the program in the folder behind them was not run: %v", err)
	}
}

// TestIptablesLineBreak: a rule with a line break in it is no second rule.
func TestIptablesLineBreak(t *testing.T) {
	m := newMachine(t)
	dir, calls := programs(t, "exit 0", "exit 0")
	s := published("c1", 8001)
	s.IptablesRules[0].Rule = "-i x\n-A INPUT -j ACCEPT"
	err := m.session(dir).Apply(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "control character") {
		t.Errorf("Apply = %v", err)
	}
	if text, err := os.ReadFile(calls); err == nil {
		t.Errorf("calls %q", text)
	}
}

// TestSysctlNames: no name leads out of what a network namespace has.
func TestSysctlNames(t *testing.T) {
	m := newMachine(t)
	for _, name := range []string{
		"kernel/core_pattern", "net/../kernel/core_pattern", "net/ipv4/conf/../../../kernel/core_pattern", "/proc/sys/net/ipv4/ip_forward",
		"../../etc/passwd", "net/ipv4//ip_forward", "net/./ipv4/ip_forward", "",
	} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			s := netstate.State{Owner: netstate.Owner{Network: "n", ContainerID: "c", IfName: "eth0"}, Sysctls: []netstate.Sysctl{{Place: netstate.Host, Name: name, Value: "1"}}}
			if err := m.session(t.TempDir()).Apply(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no path below net/") {
				t.Errorf("Apply = %v", err)
			}
		})
	}
}

// TestObservedFiles: what is no file, or not the administrator's, is not shown to a plugin, and nothing is waited for.
func TestObservedFiles(t *testing.T) {
	m := newMachine(t)
	for name, plant := range map[string]func(path string) error{
		"fifo":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"endless": func(path string) error {
			return os.Symlink("/dev/zero", path)
		},
		"large": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 2<<20))
		},
		"writable-by-everybody": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("^net.*"), 0o600), os.Chmod(path, 0o602))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			f, err := m.session(t.TempDir()).Observe(t.Context(), netstate.Query{Files: []string{path}})
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Observe = %s, %v", fmt.Sprint(f.Files), err)
			}
		})
	}
}
