package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ExecArg, before a folder, has the monitor run one more process in a container of runc, with its own standard streams, and end as that one ends. It
// reports as for a container. runc itself would stay for as long as something holds the process's output.
const ExecArg = "exec"

// The files of its folder.
const (
	ExecFile    = "exec.json"    // the RuncSpec, without a bundle
	ProcessFile = "process.json" // the process, as the OCI runtime specification 1.0 has it
)

// execute runs a process in a container and returns its code. Until it runs, SIGTERM ends the attempt; afterwards the process is to be killed, and the
// monitor ends with it.
func execute(ctx context.Context, dir string) (int, error) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
	defer stop()
	report := os.NewFile(ReportFD, "report")
	refuse := func(err error) (int, error) {
		tell(report, Started{Error: err.Error()})
		return notStarted, nil // standard error is the command's
	}
	data, err := os.ReadFile(filepath.Join(dir, ExecFile))
	if err != nil {
		return refuse(err)
	}
	var r RuncSpec
	if err := json.Unmarshal(data, &r); err != nil {
		return refuse(fmt.Errorf("read %s: %w", filepath.Join(dir, ExecFile), err))
	}
	if err := becomeReaper(); err != nil {
		return refuse(err)
	}
	pidFile := filepath.Join(dir, pidFile)
	cmd := r.command(dir, "exec", "--detach", "--process", filepath.Join(dir, ProcessFile), "--pid-file", pidFile, r.ID)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return refuse(r.cause(dir, err))
	}
	giveUp := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may just have ended
	err = cmd.Wait()
	if !giveUp() {
		return refuse(errors.Join(context.Cause(ctx), killChildren()))
	}
	if err != nil {
		return refuse(r.cause(dir, err))
	}
	pid, err := readPID(pidFile)
	if err != nil {
		return refuse(err)
	}
	tell(report, Started{Process: identity(pid), At: time.Now()})
	exit := reap(pid)
	if exit.Error != "" {
		return exit.Code, errors.New(exit.Error)
	}
	return exit.Code, nil
}

// pidFile is where runc writes which process it started.
const pidFile = "pid"

func readPID(file string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return pid, nil
}

// becomeReaper makes what is left of this process's children its children (Linux 3.4), such as the process that runc starts, when runc ends.
func becomeReaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper: %w", err)
	}
	return nil
}

// killChildren kills and reaps all children, and what they leave: it becomes a child when they end.
func killChildren() error {
	for {
		// Linux 3.5, with CONFIG_PROC_CHILDREN before 4.2. Any thread may have started one.
		lists, err := filepath.Glob("/proc/self/task/*/children")
		if err != nil {
			return err
		}
		for _, list := range lists {
			data, err := os.ReadFile(list)
			if errors.Is(err, os.ErrNotExist) {
				continue // the thread has just ended
			}
			if err != nil {
				return err
			}
			for text := range strings.FieldsSeq(string(data)) {
				if pid, err := strconv.Atoi(text); err == nil {
					_ = unix.Kill(pid, unix.SIGKILL) // it is not reaped
				}
			}
		}
		_, err = unix.Wait4(-1, nil, 0, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for children: %w", err)
		}
	}
}

// reap reaps children until a process is among them.
func reap(pid int) Exit {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return Exit{Code: notStarted, At: time.Now(), Error: fmt.Sprintf("wait for process %d: %v", pid, err)}
		case got != pid:
			continue // something that it left
		}
		e := Exit{Code: ws.ExitStatus(), At: time.Now()}
		if ws.Signaled() {
			e.Code = 128 + int(ws.Signal())
		}
		return e
	}
}
