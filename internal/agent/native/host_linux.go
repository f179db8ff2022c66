package native

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	runc "github.com/containerd/go-runc"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/monitor"
	"github.com/cleat-cni/cleat/internal/netns"
)

// namespaces are those of a sandbox that a container enters, by kind; those that the pod shares with the host are left out.
func (s *sandbox) namespaces(pod *v1.Pod) []netns.Namespace {
	of := func(name string, kind int) netns.Namespace {
		return netns.Namespace{Path: fmt.Sprintf("/proc/%d/ns/%s", s.rec.Pause.PID, name), Type: kind}
	}
	var list []netns.Namespace
	if !pod.Spec.HostNetwork {
		list = append(list, netns.Namespace{Path: s.rec.NetNS, Type: unix.CLONE_NEWNET}, of("uts", unix.CLONE_NEWUTS))
	}
	if !pod.Spec.HostIPC {
		list = append(list, of("ipc", unix.CLONE_NEWIPC))
	}
	if !pod.Spec.HostPID {
		list = append(list, of("pid", unix.CLONE_NEWPID))
	}
	return list
}

// prepareHost makes a command of the host of a container without an image: it runs as root in the host's file system and in the pod's
// namespaces, also the PID namespace, so that nothing of it outlives the sandbox.
func (r *Runtime) prepareHost(_ context.Context, s *sandbox, c *ctr, start container.Start, spec *monitor.Spec) error {
	command := append(append([]string{}, start.Command...), start.Args...)
	if len(command) == 0 {
		return &container.Error{Reason: container.ReasonConfig, Err: fmt.Errorf("container %s has neither image nor command", c.rec.Name)}
	}
	place := &hostPlace{Dir: start.Container.WorkingDir, Namespaces: s.namespaces(start.Pod), Env: environment(start, nil)}
	if err := r.groups.Make(c.rec.Cgroup, limits(start.Container)); err != nil {
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	r.mu.Lock()
	c.rec.Host = place
	r.mu.Unlock()
	spec.Host = &monitor.HostCommand{Command: command, Env: place.Env, Dir: place.Dir, Namespaces: place.Namespaces}
	return nil
}

// defaultPath is the PATH of a container that sets none.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is that of a container: the image's, with the pod's in its place.
func environment(start container.Start, image []string) []string {
	env := append([]string{defaultPath, "HOSTNAME=" + hostname(start.Pod)}, image...)
	for _, v := range start.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	return lastOfEach(env)
}

// lastOfEach keeps the last value of each variable, in the place of its first.
func lastOfEach(env []string) []string {
	at := map[string]int{}
	var list []string
	for _, e := range env {
		name, _, _ := bytes.Cut([]byte(e), []byte("="))
		if i, ok := at[string(name)]; ok {
			list[i] = e
			continue
		}
		at[string(name)] = len(list)
		list = append(list, e)
	}
	return list
}

// runc returns the client of runc.
func (r *Runtime) runc() *runc.Runc {
	return &runc.Runc{Command: r.cfg.Runc, Root: r.path("runc"), PdeathSignal: unix.SIGKILL}
}

// forced deletes a container also while it runs.
var forced = &runc.DeleteOpts{Force: true}
