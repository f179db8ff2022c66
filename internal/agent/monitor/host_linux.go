package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/agent/cgroup"
	"github.com/cleat-cni/cleat/internal/netns"
)

// HostCommand is a command in the host's file system and the pod's namespaces.
type HostCommand struct {
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"` // the whole environment
	Dir     string   `json:"dir,omitempty"` // default /
	// Namespaces are those that it runs in; the others are the host's.
	Namespaces []netns.Namespace `json:"namespaces,omitempty"`
}

// Start starts the command in a control group; configure sets its streams.
func (h *HostCommand) Start(group cgroup.Entry, configure func(*exec.Cmd) error) (*exec.Cmd, error) {
	if len(h.Command) == 0 {
		return nil, errors.New("the host command is empty")
	}
	path, err := lookPath(h.Command[0], h.Env)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: h.Command, Env: h.Env, Dir: cmp.Or(h.Dir, "/"), SysProcAttr: &unix.SysProcAttr{Setsid: true}}
	if err := configure(cmd); err != nil {
		return nil, err
	}
	if group.Dir != "" {
		dir, err := os.Open(group.Dir)
		if err != nil {
			return nil, fmt.Errorf("join the control group: %w", err)
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	err = netns.In(h.Namespaces, func() error {
		for _, file := range group.Tasks {
			if err := os.WriteFile(file, []byte("0"), 0o644); err != nil {
				return fmt.Errorf("join the control group: %w", err)
			}
		}
		return cmd.Start()
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", h.Command[0], err)
	}
	return cmd, nil
}

// lookPath finds a program in the PATH of an environment.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	dirs := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, e := range env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			dirs = path
		}
	}
	for _, dir := range filepath.SplitList(dirs) {
		path := filepath.Join(cmp.Or(dir, "."), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s in %s: %w", name, dirs, exec.ErrNotFound)
}

// startHost starts a host command in the container's control group.
func (m *monitor) startHost(ctx context.Context, out output) (process, error) {
	group, err := m.groups.Entry(m.spec.Cgroup)
	if err != nil {
		return process{}, err
	}
	cmd, err := m.spec.Host.Start(group, func(c *exec.Cmd) error {
		c.Stdout, c.Stderr = out.stdout, out.stderr
		return nil
	})
	if err != nil {
		return process{}, err
	}
	return process{pid: cmd.Process.Pid, cleanUp: func() error {
		ctx, cancel := context.WithTimeout(ctx, removeTimeout)
		defer cancel()
		return m.groups.Remove(ctx, m.spec.Cgroup)
	}}, nil
}

// removeTimeout bounds the removing of a control group.
const removeTimeout = 10 * time.Second
