package e2e

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cleat-cni/cleat/internal/agent"
	"github.com/cleat-cni/cleat/internal/agent/cgroup"
	"github.com/cleat-cni/cleat/internal/agent/images/imagestest"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// slack is how much longer than promised things may take: the promises are for a machine that does nothing else.
var slack = flag.Float64("agent.slack", 10, "how many times as long as promised the agent may take; 1 holds it to its word")

// TestAgentScripts runs the node agent. Each script has a machine of its own, which ends with the script: a network namespace, and one for
// processes, whose first one stands for init. Beside the commands of the other scripts it has:
//
//	agent ARG…            start an agent in the machine, with the script's folders, and wait until it answers; its log is agent.log
//	machine PROGRAM ARG…  run a program in the machine
//	pods ARG…             machine cleat pods, of that agent
//	within LIMIT [match REGEX] COMMAND…  run one of these again and again until it succeeds, and prints what matches
//	image                 have an image busybox:1 for agent --images $IMAGES
func TestAgentScripts(t *testing.T) {
	sandbox.Require(t)
	bin := build(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/agent",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") == "1",
		Setup: func(env *testscript.Env) error {
			self, err := netns.New()
			if err != nil {
				return err
			}
			h := &host{t: env.T().(testing.TB), self: self}
			env.Values[hostKey{}] = h
			env.Defer(func() { self.Close() })
			if err := prepare(env, bin); err != nil {
				return err
			}
			for name, dir := range map[string]string{"ROOT": "root", "PODS": "pods", "IMAGES": "images"} {
				env.Setenv(name, filepath.Join(env.WorkDir, dir))
			}
			env.Setenv("NODE", strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"))
			if err := os.MkdirAll(env.Getenv("PODS"), 0o755); err != nil {
				return err
			}
			return boot(env, h)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"host": cmdHost, "exits": cmdExits, "need": cmdNeed,
			"agent": cmdAgent, "machine": cmdMachine, "pods": cmdPods, "within": cmdWithin, "image": cmdImage,
		},
	})
}

// boot starts the script's machine. When the script ends all processes in it do, and what they leave in the host's control groups is removed.
func boot(env *testscript.Env, h *host) error {
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
		"sh", "-c", "echo up; while :; do sleep 1000000 & wait $!; done") // a shell reaps what is left to it
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := h.self.Do(cmd.Start); err != nil {
		return err
	}
	env.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
		tidy(env, h.t)
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("start the machine: %w", err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	h.machine = strings.TrimSpace(string(children))
	return err
}

func tidy(env *testscript.Env, t testing.TB) {
	groups, err := cgroup.Mounted()
	if err != nil {
		t.Error(err)
		return
	}
	if err := groups.Remove(t.Context(), agent.ControlGroup(env.Getenv("ROOT"))); err != nil {
		t.Log(err) // the next run has another
	}
}

// inside makes the command line that runs another one in the machine.
func inside(ts *testscript.TestScript, args []string) []string {
	if len(args) > 0 && args[0] == "pods" {
		args = append([]string{"cleat", "pods", "--root", ts.Getenv("ROOT")}, args[1:]...)
	}
	return append([]string{"nsenter", "--target", of(ts).machine, "--pid", "--mount", "--wd=" + ts.MkAbs("."), "--"}, args...)
}

func cmdMachine(ts *testscript.TestScript, neg bool, args []string) {
	run(ts, of(ts).self, neg, inside(ts, args))
}

func cmdPods(ts *testscript.TestScript, neg bool, args []string) {
	run(ts, of(ts).self, neg, inside(ts, append([]string{"pods"}, args...)))
}

// command makes a command that runs in the machine.
func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	line := inside(ts, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"))
	return cmd
}

func cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("use: ! machine cleat agent")
	}
	log, err := os.OpenFile(ts.MkAbs("agent.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	ts.Check(err)
	defer log.Close()
	cmd := command(ts, append([]string{"cleat", "agent", "--root", ts.Getenv("ROOT"), "--manifests", ts.Getenv("PODS"), "--conf-dir", ts.Getenv("CONF"),
		"--plugin-dir", ts.Getenv("PLUGINS"), "--builtin", "--listen", "", "--node-name", ts.Getenv("NODE")}, args...))
	cmd.Stdout, cmd.Stderr = log, log
	ts.Check(of(ts).self.Do(cmd.Start))
	go cmd.Wait() // it ends with the machine
	cmdWithin(ts, false, []string{"2s", "pods", "list"})
}

const usageWithin = "usage: within LIMIT [match REGEX] COMMAND…"

// cmdWithin waits until a command succeeds, for the limit times the slack, and says how long it took.
func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf(usageWithin)
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	args = args[1:]
	match := regexp.MustCompile("")
	if args[0] == "match" && len(args) > 2 {
		match, args = regexp.MustCompile("(?m)"+args[1]), args[2:]
	}
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var out bytes.Buffer
		cmd := command(ts, args)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := of(ts).self.Do(cmd.Run)
		took := time.Since(began)
		if err == nil && match.Match(out.Bytes()) {
			ts.Logf("after %v", took.Round(time.Millisecond))
			return
		}
		if took > time.Duration(float64(limit)**slack) {
			ts.Logf("%s\nthe agent's log:\n%s", out.String(), ts.ReadFile("agent.log"))
			ts.Fatalf("not within %v, %s times over: %s", limit, strconv.FormatFloat(*slack, 'g', -1, 64), strings.Join(args, " "))
		}
		<-tick.C
	}
}

func cmdImage(ts *testscript.TestScript, _ bool, _ []string) {
	cmdNeed(ts, false, []string{"busybox", "runc"})
	path, err := exec.LookPath("busybox")
	ts.Check(err)
	imagestest.Busybox(of(ts).t, filepath.Join(ts.Getenv("IMAGES"), "busybox"), path)
}
