//go:build amd64 || arm64

package crash

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// setupKey is the variable that holds a worker's folders.
const setupKey = "CLEAT_CRASH_SETUP"

// wireSetup is setup in JSON.
type wireSetup struct{ Base, Bin, Self string }

// work is the role worker: it does the jobs on its standard input and writes the answers, one a line.
func work() error {
	var ws wireSetup
	if err := json.Unmarshal([]byte(os.Getenv(setupKey)), &ws); err != nil {
		return err
	}
	s := setup{base: ws.Base, bin: ws.Bin, self: ws.Self}
	if err := errors.Join(s.mounts(), becomeReaper()); err != nil {
		return err
	}
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	worlds := map[string]*world{}
	for in.Scan() {
		var j job
		if err := json.Unmarshal(in.Bytes(), &j); err != nil {
			return err
		}
		a, err := s.one(worlds, j)
		if err != nil {
			a.Leaks = append(a.Leaks, "the run could not be made: "+err.Error())
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return in.Err()
}

// one does a job in a world that is kept for the next while it is clean.
func (s setup) one(worlds map[string]*world, j job) (answer, error) {
	all := chains()
	i := slices.IndexFunc(all, func(c chain) bool { return c.name == j.Chain })
	if i < 0 {
		return answer{}, fmt.Errorf("no chain %q", j.Chain)
	}
	cold := j.Verb == verbColdAdd || j.Verb == verbColdRound
	name := fmt.Sprintf("%s/%s", j.Chain, j.Form)
	w := worlds[name]
	if w == nil || cold {
		// One world at a time has /run/cleat and the boot id.
		for other, old := range worlds {
			delete(worlds, other)
			if err := old.close(); err != nil {
				return answer{}, err
			}
		}
		var err error
		if w, err = newWorld(s, all[i], j.Form, cold); err != nil {
			return answer{}, fmt.Errorf("make a world: %w", err)
		}
	}
	a, err := w.perform(j)
	if err == nil && len(a.Leaks) == 0 && !w.cold {
		worlds[name] = w
		return a, nil
	}
	delete(worlds, name)
	return a, errors.Join(err, w.close())
}

// worker is a process with the role, as its master sees it.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startWorker(s setup, i int) (*worker, error) {
	base := filepath.Join(s.base, fmt.Sprintf("worker%d", i))
	if err := os.Mkdir(base, 0o755); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(wireSetup{base, s.bin, s.self})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.self)
	cmd.Env = append(os.Environ(), roleKey+"="+roleWorker, setupKey+"="+string(raw))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	w := &worker{cmd: cmd}
	if w.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	return w, cmd.Start()
}

// do has the worker do a job.
func (w *worker) do(j job) (answer, error) {
	line, err := json.Marshal(j)
	if err != nil {
		return answer{}, err
	}
	if _, err := w.in.Write(append(line, '\n')); err != nil {
		return answer{}, fmt.Errorf("worker: %w", err)
	}
	reply, err := w.out.ReadBytes('\n')
	if err != nil {
		return answer{}, fmt.Errorf("worker: %w", err)
	}
	var a answer
	return a, json.Unmarshal(reply, &a)
}

func (w *worker) stop() error {
	w.in.Close()
	return w.cmd.Wait()
}
