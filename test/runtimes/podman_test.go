//go:build peers && linux

package runtimes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// podmanConfig is podman's configuration. The limits are for machines whose root may not raise its own.
const podmanConfig = `[containers]
apparmor_profile = ""
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[network]
network_backend = "cni"
cni_plugin_dirs = ["BIN"]
network_config_dir = "CONF"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
static_dir = "DIR/static"
tmp_dir = "DIR/temp"
infra_image = "localhost/pause:1"
`

// podman is a podman in folders of its own, with networks that it has made itself.
type podman struct {
	*lab
	folder, confDir string
	env             []string
}

// newPodman prepares one, with plugins in the folder bin, the images that the tests need and two networks.
func newPodman(t *testing.T, l *lab, f form, bin string) *podman {
	t.Helper()
	p := &podman{lab: l, folder: t.TempDir(), confDir: t.TempDir()}
	words := strings.NewReplacer("DIR", p.folder, "BIN", bin, "CONF", p.confDir)
	for name, text := range map[string]string{"containers.conf": podmanConfig,
		"storage.conf": "[storage]\ndriver = \"overlay\"\ngraphroot = \"DIR/graph\"\nrunroot = \"DIR/run\"\n"} {
		if err := os.WriteFile(filepath.Join(p.folder, name), []byte(words.Replace(text)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(p.folder, "containers.conf"),
		"CONTAINERS_STORAGE_CONF="+filepath.Join(p.folder, "storage.conf"))
	// The storage is a mount point while it is used.
	t.Cleanup(func() { p.podman("", "system", "reset", "--force") })
	for _, file := range images(t, "localhost") {
		p.mustPodman(t, "", "load", "--quiet", "--input", file)
	}
	for i, name := range []string{"blue", "green"} {
		p.mustPodman(t, "", "network", "create", "--subnet", fmt.Sprintf("10.89.8%d.0/24", i), name)
		f.rewrite(t, p.confOf(name))
	}
	return p
}

func (p *podman) confOf(network string) string { return filepath.Join(p.confDir, network+".conflist") }
func (p *podman) conf() string                 { return p.confOf("blue") }

// podman runs the program.
func (p *podman) podman(input string, args ...string) (string, error) {
	cmd := exec.Command("podman", args...)
	cmd.Env, cmd.Stdin = p.env, strings.NewReader(input)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("podman %s: %w\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

func (p *podman) mustPodman(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := p.podman(input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *podman) run(t *testing.T, name string, port int) pod {
	t.Helper()
	args := []string{"run", "--detach", "--name", name, "--network", "blue", "--cgroup-parent", "/" + cgroups}
	if port != 0 {
		args = append(args, "--publish", fmt.Sprintf("%d:8080", port))
	}
	args = append(args, "localhost/tools:1", "/bin/sh", "-c", serving(name))
	made := pod{name: name, port: port, id: p.mustPodman(t, "", args...)}
	p.inspect(t, &made)
	return made
}

// inspect reads a container's address on the first network and its first process.
func (p *podman) inspect(t *testing.T, made *pod) {
	t.Helper()
	var list []struct {
		State           struct{ Pid int }
		NetworkSettings struct {
			Networks map[string]struct{ IPAddress string }
		}
	}
	if err := json.Unmarshal([]byte(p.mustPodman(t, "", "inspect", made.id)), &list); err != nil {
		t.Fatal(err)
	}
	made.ip, made.init = list[0].NetworkSettings.Networks["blue"].IPAddress, list[0].State.Pid
}

func (p *podman) remove(made pod) error {
	_, err := p.podman("", "rm", "--force", "--ignore", "--time", "0", made.id)
	return err
}

// restart restarts the container: podman has no daemon.
func (p *podman) restart(t *testing.T, made pod) pod {
	t.Helper()
	p.mustPodman(t, "", "restart", "--time", "0", made.id)
	p.inspect(t, &made)
	return made
}
