package reliability

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// job is a verb that another process does.
type job struct {
	Seq    int
	Verb   string
	On     wiring
	Conf   []byte
	ID     string
	In     string // the pod, if it is not ID's
	Port   int    // published, if not 0
	GCArgs libcni.GCArgs
}

// The verbs of jobs.
const (
	verbAdd     = "add"
	verbDel     = "del"
	verbCheck   = "check"
	verbGC      = "gc"      // by a list of what is valid
	verbCollect = "collect" // by liveness
)

// answer is what came of a job.
type answer struct {
	Seq   int
	Addrs []string // that ADD gave
	Err   string
	Code  cni.Code
}

// done reports whether all went well.
func (a answer) done() bool { return a.Err == "" }

// work is the role worker: it does the jobs on its standard input, all at the same time, and writes the answers, one a line. A
// job on another machine than the one before waits until those before are done.
func work() error {
	var (
		in   = json.NewDecoder(os.Stdin)
		mu   sync.Mutex
		out  = json.NewEncoder(os.Stdout)
		wait sync.WaitGroup
		on   wiring
		s    *side
	)
	defer wait.Wait()
	for {
		var j job
		err := in.Decode(&j)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if j.On != on {
			wait.Wait()
			if s != nil {
				err = s.Close()
			}
			if on = j.On; err == nil {
				s, err = on.open(0)
			}
			if err != nil {
				return err
			}
		}
		wait.Go(func() {
			a := j.do(s)
			mu.Lock()
			defer mu.Unlock()
			if err := out.Encode(a); err != nil {
				exit(fmt.Errorf("answer: %w", err))
			}
		})
	}
}

// limit is how long a job may take.
const limit = 2 * time.Minute

// do does the job.
func (j job) do(s *side) answer {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return j.under(ctx, s)
}

// under does the job under a context.
func (j job) under(ctx context.Context, s *side) answer {
	a := answer{Seq: j.Seq}
	if err := j.run(ctx, s, &a); err != nil {
		a.Err, a.Code = err.Error(), cni.CodeOf(err)
	}
	return a
}

func (j job) run(ctx context.Context, s *side, a *answer) error {
	list, err := libcni.ConfListFromBytes(j.Conf)
	if err != nil {
		return err
	}
	rt := j.On.attachment(j.ID, j.Port)
	if j.In != "" {
		rt.NetNS = j.On.pod(j.In)
	}
	switch j.Verb {
	case verbAdd:
		res, err := s.AddNetworkList(ctx, list, rt)
		if err != nil {
			return err
		}
		for _, ip := range res.IPs {
			a.Addrs = append(a.Addrs, ip.Address.Addr().String())
		}
		return nil
	case verbDel:
		return s.DelNetworkList(ctx, list, rt)
	case verbCheck:
		return s.CheckNetworkList(ctx, list, rt)
	case verbGC:
		return s.GCNetworkList(ctx, list, &j.GCArgs)
	case verbCollect:
		_, err := s.CollectNetworkList(ctx, list, libcni.CollectArgs{})
		return err
	default:
		return fmt.Errorf("no verb %q", j.Verb)
	}
}

// worker is a process with the role, as its master sees it. It may be given several jobs at once.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex
	seq     int
	waiting map[int]chan answer
	dead    bool
}

// errDied is the error for a job whose worker ended before its answer.
var errDied = errors.New("the process died")

// startWorker starts a process that ends with the test.
func startWorker(t testing.TB) *worker {
	t.Helper()
	return startAs(t, roleWorker)
}

// startAs starts a process with a role that takes jobs.
func startAs(t testing.TB, role string) *worker {
	t.Helper()
	w := &worker{cmd: selfAs(role), waiting: map[int]chan answer{}}
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go w.listen(out)
	t.Cleanup(func() { w.stop(t) })
	return w
}

// selfAs is this program in a role. It ends with its standard input, and so with this process.
func selfAs(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleKey+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// listen hands out the answers, and at the end of the process one to everybody who still waits.
func (w *worker) listen(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // cut short by a kill
		}
		w.mu.Lock()
		ch := w.waiting[a.Seq]
		delete(w.waiting, a.Seq)
		w.mu.Unlock()
		if ch != nil {
			ch <- a
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for _, ch := range w.waiting {
		close(ch)
	}
}

// begin gives the worker a job. What is returned waits for its answer; errDied if there is none.
func (w *worker) begin(j job) (end func() (answer, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	j.Seq = w.seq
	ch := make(chan answer, 1)
	line, err := json.Marshal(j)
	if err == nil && !w.dead {
		_, err = w.in.Write(append(line, '\n'))
	}
	if err != nil || w.dead {
		close(ch)
	} else {
		w.waiting[j.Seq] = ch
	}
	return func() (answer, error) {
		a, ok := <-ch
		if !ok {
			return a, errDied
		}
		return a, nil
	}
}

// do has the worker do a job.
func (w *worker) do(j job) (answer, error) { return w.begin(j)() }

// kill ends the process in the middle of whatever it does.
func (w *worker) kill() error {
	err := w.cmd.Process.Kill()
	_ = w.cmd.Wait() // it was killed
	w.cmd, w.in = nil, nil
	return err
}

// stop ends the process, unless it was killed, and wants it to end well.
func (w *worker) stop(t testing.TB) {
	if w.cmd == nil {
		return
	}
	w.in.Close()
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("worker: %v", err)
	}
}

// hold starts a process that holds the lock on the file at path, until release or the end of the test.
func hold(t testing.TB, path string) (pid int, release func()) {
	t.Helper()
	cmd := selfAs(roleHolder, path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("holder: %q, %v", line, err)
	}
	release = sync.OnceFunc(func() {
		in.Close()
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
	t.Cleanup(release)
	return cmd.Process.Pid, release
}
