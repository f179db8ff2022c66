package monitor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// RuncSpec is a container from a bundle.
type RuncSpec struct {
	Path   string `json:"path"`   // of runc
	Root   string `json:"root"`   // where it keeps its state
	Bundle string `json:"bundle"` // the folder with config.json
	ID     string `json:"id"`
}

// start creates the container and starts it.
func (r *RuncSpec) start(dir string, out output) (process, error) {
	pidFile := filepath.Join(dir, pidFile)
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return process{}, err
	}
	create := r.command(dir, "create", "--bundle", r.Bundle, "--pid-file", pidFile, r.ID)
	create.Stdout, create.Stderr = out.stdout, out.stderr
	if err := create.Run(); err != nil {
		return process{}, errors.Join(fmt.Errorf("create the container: %w", r.cause(dir, err)), r.remove(dir))
	}
	pid, err := readPID(pidFile)
	if err != nil {
		return process{}, errors.Join(err, r.remove(dir))
	}
	if err := r.command(dir, "start", r.ID).Run(); err != nil {
		return process{}, errors.Join(fmt.Errorf("start the container: %w", r.cause(dir, err)), r.remove(dir))
	}
	return process{pid: pid, cleanUp: func() error { return r.remove(dir) }}, nil
}

// runcLog is where runc writes its messages, in JSON.
const runcLog = "runc.log"

func (r *RuncSpec) command(dir string, args ...string) *exec.Cmd {
	args = append([]string{"--root", r.Root, "--log", filepath.Join(dir, runcLog), "--log-format", "json"}, args...)
	cmd := exec.Command(r.Path, args...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return cmd
}

// remove removes what runc keeps of the container, and kills it if it runs. What isn't there is success.
func (r *RuncSpec) remove(dir string) error {
	if err := r.command(dir, "delete", "--force", r.ID).Run(); err != nil {
		return fmt.Errorf("remove the container: %w", r.cause(dir, err))
	}
	return nil
}

// cause is the last error in runc's log, which says more than its exit status; or that it isn't there.
func (r *RuncSpec) cause(dir string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("runc is not installed: %w", err)
	}
	data, readErr := os.ReadFile(filepath.Join(dir, runcLog))
	if readErr != nil {
		return err
	}
	last := ""
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var entry struct{ Level, Msg string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Level == "error" {
			last = entry.Msg
		}
	}
	if last == "" {
		return err
	}
	return fmt.Errorf("runc: %s: %w", last, err)
}
