//go:build peers && linux

package runtimes

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
)

// TestRuntimes: each runtime, with our plugins in each form, through the life of pods. Whatever happens, what is left in the end is what one
// pod leaves that came and went before.
func TestRuntimes(t *testing.T) {
	l := newLab(t, "containerd", "ctr", "runc", "podman", "conmon")
	var matrix outcomes
	t.Cleanup(func() {
		if err := matrix.write(os.Getenv("CLEAT_MATRIX")); err != nil {
			t.Error(err)
		}
	})
	for _, rt := range []struct {
		name  string
		start func(*testing.T, form) engine
	}{
		{"containerd", func(t *testing.T, f form) engine { return newContainerd(t, l, f) }},
		{"podman", func(t *testing.T, f form) engine { return newPodman(t, l, f, l.ours) }},
	} {
		for _, f := range forms() {
			t.Run(rt.name+"-"+f.name, func(t *testing.T) {
				e := rt.start(t, f)
				first(t, e)
				for _, c := range casesOf(e) {
					matrix.run(t, outcome{runtime: rt.name, form: f.name, name: c.name}, func(t *testing.T) {
						before := traces(t)
						c.run(t, e)
						if left := sandbox.Difference(before, traces(t)); left != "" {
							t.Errorf("left (- before + after):\n%s", left)
						}
					})
				}
			})
		}
	}
}

// first has pods of all networks come and go, which leaves what stays by design.
func first(t *testing.T, e engine) {
	t.Helper()
	p := e.run(t, "first", 18000)
	serves(t, p)
	if err := e.remove(p); err != nil {
		t.Fatal(err)
	}
	if p, ok := e.(*podman); ok {
		twoNetworks(t, p)
	}
}

type testCase struct {
	name string
	run  func(*testing.T, engine)
}

// casesOf are the cases that an engine can be put through.
func casesOf(e engine) []testCase {
	cases := []testCase{
		{"ten-pods", tenPods}, {"pause-killed", pauseKilled}, {"restarted", restarted}, {"conf-moved", confMoved},
	}
	if p, ok := e.(*podman); ok {
		cases = append(cases, testCase{"two-networks", func(t *testing.T, _ engine) { twoNetworks(t, p) }},
			testCase{"play-kube", func(t *testing.T, _ engine) { playKube(t, p) }})
	}
	return cases
}

// serves wants a pod to serve its name at its address, and at the port of the host.
func serves(t *testing.T, p pod) {
	t.Helper()
	addrs := []string{p.addr()}
	if p.port != 0 {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", p.port))
	}
	for _, addr := range addrs {
		eventually(t, func() error { return answers(addr, p.name) })
	}
}

func removeAll(t *testing.T, e engine, pods ...pod) {
	t.Helper()
	for _, p := range pods {
		if err := e.remove(p); err != nil {
			t.Error(err)
		}
	}
}

// tenPods: each is reached by the host, at its address and its port, and by another pod.
func tenPods(t *testing.T, e engine) {
	var pods []pod
	seen := map[string]string{}
	for i := range 10 {
		p := e.run(t, fmt.Sprintf("pod-%d", i), 18001+i)
		pods = append(pods, p)
		if other := seen[p.ip]; other != "" || p.ip == "" {
			t.Errorf("%s has the address %q, as %q", p.name, p.ip, other)
		}
		seen[p.ip] = p.name
	}
	for i, p := range pods {
		serves(t, p)
		other := pods[(i+1)%len(pods)]
		p.within(t, func() error { return answers(other.addr(), other.name) })
	}
	removeAll(t, e, pods...)
	if answers("127.0.0.1:18001", "pod-0") == nil {
		t.Error("the port of a pod that is gone answers")
	}
}

// pauseKilled: the process that holds the pod's namespaces is killed, and the pod's network goes with it once the runtime removes it.
func pauseKilled(t *testing.T, e engine) {
	p := e.run(t, "killed", 18001)
	other := e.run(t, "other", 18002)
	serves(t, p)
	if err := syscall.Kill(p.init, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return e.remove(p) })
	again := e.run(t, "killed", 18001)
	serves(t, again)
	serves(t, other)
	removeAll(t, e, again, other)
}

// restarted: what goes on is not disturbed, and what begins anew works.
func restarted(t *testing.T, e engine) {
	p := e.run(t, "restarted", 18001)
	other := e.run(t, "other", 18002)
	undisturbed := traffic.Pinging(t, nil, other.ip, "0.01")
	p = e.restart(t, p)
	serves(t, p)
	serves(t, other)
	undisturbed()
	removeAll(t, e, p, other)
}

// confMoved: the configuration is not there when a pod is to be removed. The runtime may fail then, and leave what it has; once the file is
// back all goes.
func confMoved(t *testing.T, e engine) {
	p := e.run(t, "moved", 18001)
	serves(t, p)
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Rename(e.conf(), away); err != nil {
		t.Fatal(err)
	}
	err := e.remove(p)
	t.Logf("removed without the configuration: %v", err)
	if data, readErr := os.ReadFile(away); readErr != nil {
		t.Fatal(readErr)
	} else if writeErr := os.WriteFile(e.conf(), data, 0o644); writeErr != nil { // a file that is moved there containerd does not notice
		t.Fatal(writeErr)
	}
	eventually(t, func() error { return e.remove(p) })
	if c, ok := e.(*containerd); ok {
		c.ready(t)
	}
}

// twoNetworks: a container with an interface on each.
func twoNetworks(t *testing.T, p *podman) {
	other := p.run(t, "other", 0)
	id := p.mustPodman(t, "", "run", "--detach", "--name", "both", "--network", "blue,green", "--publish", "18001:8080", "--cgroup-parent", "/"+cgroups,
		"localhost/tools:1", "/bin/sh", "-c", serving("both"))
	both := pod{name: "both", id: id, port: 18001}
	p.inspect(t, &both)
	serves(t, both)
	both.within(t, func() error { return answers(other.addr(), "other") })
	both.within(t, func() error {
		addrs, err := net.InterfaceAddrs()
		if text := fmt.Sprint(addrs); err == nil && (!strings.Contains(text, "10.89.80.") || !strings.Contains(text, "10.89.81.")) {
			err = fmt.Errorf("addresses %s, want one of each network", text)
		}
		return err
	})
	removeAll(t, p, both, other)
}

// playKube: a pod of a manifest, whose two containers share its network.
func playKube(t *testing.T, p *podman) {
	const manifest = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: server
    image: localhost/tools:1
    command: [/bin/sh, -c, "mkdir -p /www; echo kube > /www/index.html; exec httpd -f -p 8080 -h /www"]
    ports: [{containerPort: 8080, hostPort: 18001}]
  - name: beside
    image: localhost/tools:1
    command: [/bin/sleep, "3600"]
`
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	p.mustPodman(t, "", "play", "kube", "--network", "blue", file)
	eventually(t, func() error { return answers("127.0.0.1:18001", "kube") })
	beside := pod{name: "beside", id: "web-beside"}
	p.inspect(t, &beside)
	beside.within(t, func() error { return answers("127.0.0.1:8080", "kube") })
	p.mustPodman(t, "", "pod", "rm", "--force", "--time", "0", "web")
}
