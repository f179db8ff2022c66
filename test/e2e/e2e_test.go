// Package e2e runs the programs of this module as their users do, in testscript files. Each script has
// a network namespace of its own that is its host, a configuration folder and a state folder.
//
// Besides testscript's own commands a script has:
//
//	host PROGRAM ARG…   run a program in the script's host namespace
//	cleat ARG…          host cleat with the script's folders
//	netns NAME…         make namespaces; the path of each is in the variable NAME
//	in NAME PROGRAM…    run a program in a namespace that netns made
//	start FILE NAME PROGRAM…  start a program there, whose output goes to FILE
//	stop FILE           interrupt it and wait for its end
//	exits N             check the exit status of the program that ran last
//	firewalld WHAT…     a firewalld on a bus of the script's: start, stop, reload, or list ZONE SOURCE…, which wants just these
//	need PROGRAM…       skip the script if this machine lacks a program
package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cleat-cni/cleat/internal/firewalld/firewalldtest"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// build makes the programs once, both in one go so that they are of one build.
func build(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w -X main.version=test",
		"-o", bin+"/", "github.com/cleat-cni/cleat/cmd/cleat", "github.com/cleat-cni/cleat/cmd/cleat-cni", "github.com/cleat-cni/cleat/cmd/cleatd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return bin
}

// host is the namespace that a script takes for its host's, and those it made.
type host struct {
	t      testing.TB
	self   *netns.Handle
	named  map[string]*netns.Handle
	status int // of the last program
	// started are the programs that run beside the script, by the files of their output.
	started map[string]*exec.Cmd
	machine string // of scripts for the agent: the first process of the script's machine
	// firewalld is the script's, once it was started.
	firewalld *firewalldtest.Firewalld
}

type hostKey struct{}

func TestScripts(t *testing.T) {
	sandbox.Require(t)
	bin := build(t)
	buildExample(t, bin)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") == "1",
		Setup: func(env *testscript.Env) error {
			self, err := netns.New()
			if err != nil {
				return err
			}
			// The T of testscript.Run wraps a *testing.T.
			h := &host{t: env.T().(testing.TB), self: self, named: map[string]*netns.Handle{}, started: map[string]*exec.Cmd{}}
			env.Values[hostKey{}] = h
			env.Defer(func() {
				for _, cmd := range h.started {
					cmd.Process.Kill()
					cmd.Wait()
				}
				for _, ns := range h.named {
					ns.Close()
				}
				self.Close()
			})
			return prepare(env, bin)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"host": cmdHost, "cleat": cmdCleat, "netns": cmdNetns, "in": cmdIn, "exits": cmdExits, "need": cmdNeed,
			"start": cmdStart, "stop": cmdStop, "firewalld": cmdFirewalld,
		},
	})
}

// prepare makes the script's folders and its loopback.
func prepare(env *testscript.Env, bin string) error {
	env.Setenv("BIN", bin)
	env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("CONF", filepath.Join(env.WorkDir, "net.d"))
	env.Setenv("STATE", filepath.Join(env.WorkDir, "state"))
	env.Setenv("PLUGINS", filepath.Join(env.WorkDir, "plugins"))
	for _, dir := range []string{env.Getenv("CONF"), env.Getenv("PLUGINS")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := expand(env); err != nil {
		return err
	}
	h := env.Values[hostKey{}].(*host)
	return h.self.Do(exec.Command("ip", "link", "set", "lo", "up").Run)
}

// expand puts the script's folder in place of $WORK in its configurations: leases are kept there.
func expand(env *testscript.Env) error {
	return filepath.WalkDir(env.WorkDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(filepath.Ext(path), ".conf") && filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "$WORK", env.WorkDir)), 0o644)
	})
}

func of(ts *testscript.TestScript) *host { return ts.Value(hostKey{}).(*host) }

// run runs a program in ns; the process is made by the thread that is in the namespace.
func run(ts *testscript.TestScript, ns *netns.Handle, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("which program?")
	}
	err := ns.Do(func() error { return ts.Exec(args[0], args[1:]...) })
	of(ts).status = 0
	if code, ok := errors.AsType[*exec.ExitError](err); ok {
		of(ts).status = code.ExitCode()
	}
	switch {
	case err != nil && !neg:
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	case err == nil && neg:
		ts.Fatalf("%s: unexpected success", strings.Join(args, " "))
	}
}

func cmdHost(ts *testscript.TestScript, neg bool, args []string) { run(ts, of(ts).self, neg, args) }

func cmdCleat(ts *testscript.TestScript, neg bool, args []string) {
	global := []string{"cleat", "--conf-dir", ts.Getenv("CONF"), "--state-dir", ts.Getenv("STATE"), "--plugin-dir", ts.Getenv("PLUGINS")}
	run(ts, of(ts).self, neg, append(global, args...))
}

func cmdNetns(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ns, err := netns.New()
		ts.Check(err)
		of(ts).named[name] = ns
		ts.Setenv(name, ns.Path())
	}
}

func cmdIn(ts *testscript.TestScript, neg bool, args []string) {
	ns, ok := of(ts).named[args[0]]
	if !ok {
		ts.Fatalf("no namespace %s", args[0])
	}
	run(ts, ns, neg, args[1:])
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: start FILE NAME PROGRAM…")
	}
	ns, ok := of(ts).named[args[1]]
	if !ok {
		ts.Fatalf("no namespace %s", args[1])
	}
	out, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer out.Close()
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Stdout, cmd.Stderr = out, out
	ts.Check(ns.Do(cmd.Start))
	of(ts).started[args[0]] = cmd
}

func cmdStop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || of(ts).started[args[0]] == nil {
		ts.Fatalf("usage: stop FILE, of a program that was started")
	}
	cmd := of(ts).started[args[0]]
	delete(of(ts).started, args[0])
	ts.Check(cmd.Process.Signal(os.Interrupt))
	ts.Check(cmd.Wait())
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(strings.Join(args, " "))
	ts.Check(err)
	if got := of(ts).status; (got == want) == neg {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func cmdNeed(ts *testscript.TestScript, _ bool, args []string) {
	for _, program := range args {
		if _, err := exec.LookPath(program); err != nil {
			sandbox.Need(of(ts).t, program, "not in PATH")
		}
	}
}
