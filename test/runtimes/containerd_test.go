//go:build peers && linux

package runtimes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// criConfig is containerd's configuration. restrict_oom_score_adj is for machines whose root may not raise its own priority.
const criConfig = `version = 2
root = "DIR/root"
state = "DIR/state"
oom_score = 0
imports = [IMPORTS]
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
	"io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "DIR/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "DIR/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "test.local/pause:1"
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "BIN"
    conf_dir = "CONF"
    max_conf_num = 1
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`

// criNetwork is the network of the pods, in a version that containerd 1.6 knows.
const criNetwork = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "isDefaultGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.77.0/24"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}},
  {"type": "firewall"},
  {"type": "bandwidth", "capabilities": {"bandwidth": true}},
  {"type": "tuning"}]}`

// containerd is a containerd in folders of its own, as kubelets drive it.
type containerd struct {
	*lab
	folder, confDir, sock string
	daemon                *exec.Cmd
}

// newContainerd starts one, with the images that the tests need and our plugins.
func newContainerd(t *testing.T, l *lab, f form) *containerd {
	t.Helper()
	c := &containerd{lab: l, folder: t.TempDir(), confDir: t.TempDir()}
	c.sock = filepath.Join(c.folder, "containerd.sock")
	if err := os.WriteFile(c.conf(), []byte(criNetwork), 0o644); err != nil {
		t.Fatal(err)
	}
	f.rewrite(t, c.conf())
	words := strings.NewReplacer("DIR", c.folder, "BIN", l.ours, "CONF", c.confDir, "IMPORTS", "")
	if err := os.WriteFile(filepath.Join(c.folder, "config.toml"), []byte(words.Replace(criConfig)), 0o644); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	t.Cleanup(func() { c.stop(t) })
	for _, file := range images(t, "test.local") {
		c.must(t, "", "ctr", "-a", c.sock, "-n", "k8s.io", "images", "import", file)
	}
	return c
}

func (c *containerd) conf() string { return filepath.Join(c.confDir, "10-pods.conflist") }

// start starts the daemon and waits for it.
func (c *containerd) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(c.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.daemon = exec.Command("containerd", "-c", filepath.Join(c.folder, "config.toml"))
	c.daemon.Stdout, c.daemon.Stderr = log, log
	c.daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	c.ready(t)
}

// ready waits until the runtime has a network.
func (c *containerd) ready(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		var r struct {
			Status struct {
				Conditions []struct {
					Type, Message string
					Status        bool
				}
			}
		}
		if err := c.call("Status", map[string]any{}, &r); err != nil {
			return err
		}
		for _, cond := range r.Status.Conditions {
			if !cond.Status {
				return fmt.Errorf("%s: %s", cond.Type, cond.Message)
			}
		}
		return nil
	})
}

// stop ends the daemon; its pods run on.
func (c *containerd) stop(t *testing.T) {
	t.Helper()
	if err := c.daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	c.daemon.Wait() // it may say that it was ended
	if t.Failed() {
		if log, err := os.ReadFile(filepath.Join(c.folder, "log")); err == nil {
			t.Logf("containerd:\n%s", log[max(0, len(log)-8000):])
		}
	}
}

// call calls a method of the interface.
func (c *containerd) call(method string, request, response any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	out, err := c.lab.run(string(data), filepath.Join(c.peers, "cri"), c.sock, method)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), response)
}

func (c *containerd) run(t *testing.T, name string, port int) pod {
	t.Helper()
	config := map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "default", "uid": "uid-" + name}, "hostname": name, "log_directory": c.folder + "/logs/" + name,
		"labels": map[string]any{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default"},
		"linux":  map[string]any{"cgroup_parent": "/" + cgroups, "security_context": map[string]any{"namespace_options": map[string]any{"pid": "CONTAINER"}}},
	}
	if port != 0 {
		config["port_mappings"] = []any{map[string]any{"container_port": 8080, "host_port": port}}
	}
	p := pod{name: name, port: port}
	var made struct {
		PodSandboxID string `json:"pod_sandbox_id"`
		ContainerID  string `json:"container_id"`
	}
	if err := c.call("RunPodSandbox", map[string]any{"config": config}, &made); err != nil {
		t.Fatal(err)
	}
	p.sandbox = made.PodSandboxID
	container := map[string]any{"metadata": map[string]any{"name": "main"}, "image": map[string]any{"image": "test.local/tools:1"},
		"command": []string{"/bin/sh", "-c", serving(name)}, "log_path": "main.log", "linux": map[string]any{}}
	request := map[string]any{"pod_sandbox_id": p.sandbox, "config": container, "sandbox_config": config}
	if err := c.call("CreateContainer", request, &made); err != nil {
		t.Fatal(err)
	}
	p.id = made.ContainerID
	if err := c.call("StartContainer", map[string]any{"container_id": p.id}, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	c.inspect(t, &p)
	return p
}

// inspect reads a pod's address and first process.
func (c *containerd) inspect(t *testing.T, p *pod) {
	t.Helper()
	var r struct {
		Status struct{ Network struct{ IP string } }
		Info   struct{ Info string }
	}
	var info struct{ PID int }
	err := c.call("PodSandboxStatus", map[string]any{"pod_sandbox_id": p.sandbox, "verbose": true}, &r)
	if err == nil {
		err = json.Unmarshal([]byte(r.Info.Info), &info)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.ip, p.init = r.Status.Network.IP, info.PID
}

func (c *containerd) remove(p pod) error {
	id := map[string]any{"pod_sandbox_id": p.sandbox}
	if err := c.call("StopPodSandbox", id, &struct{}{}); err != nil {
		return err
	}
	return c.call("RemovePodSandbox", id, &struct{}{})
}

// restart ends the daemon and starts it again: the pod runs on.
func (c *containerd) restart(t *testing.T, p pod) pod {
	t.Helper()
	c.stop(t)
	c.start(t)
	c.inspect(t, &p)
	return p
}
