//go:build peers && linux

package runtimes

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/cleat-cni/cleat/internal/netns"
)

// engine is a container runtime on a network of its own, which has ports.
type engine interface {
	// run starts a pod that serves its name at port 8080, published at a port of the host; 0 is none.
	run(t *testing.T, name string, port int) pod
	// remove ends a pod. One that is gone is success.
	remove(p pod) error
	// restart does to the runtime, and to a pod if the runtime is nothing but its pods, what its user does to have it begin anew.
	restart(t *testing.T, p pod) pod
	// conf is the file of the network's configuration.
	conf() string
}

// pod is a pod that runs.
type pod struct {
	name, id string
	sandbox  string // ID of what runs in it, where the runtime knows the two apart
	ip       string
	port     int // of the host; 0 is none
	init     int // its first process
}

// addr is where a pod serves.
func (p pod) addr() string { return p.ip + ":8080" }

// within does something in a pod's network.
func (p pod) within(t *testing.T, do func() error) {
	t.Helper()
	ns, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", p.init))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := ns.Do(do); err != nil {
		t.Errorf("in %s: %v", p.name, err)
	}
}

// serving is the script of a pod that serves its name.
func serving(name string) string {
	return fmt.Sprintf("mkdir -p /www; echo %s > /www/index.html; exec httpd -f -p 8080 -h /www", name)
}

// form is a way of writing a network's plugins down.
type form struct {
	name string
	// list makes the plugins of a configuration file, which stand there each by itself, into those of the form.
	list func([]json.RawMessage) []json.RawMessage
}

// forms are all forms that a runtime can be given.
func forms() []form {
	return []form{{"types", func(plugins []json.RawMessage) []json.RawMessage { return plugins }}}
}

// rewrite brings a configuration file into the form.
func (f form) rewrite(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	var plugins []json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(members["plugins"], &plugins); err != nil {
		t.Fatal(err)
	}
	if members["plugins"], err = json.Marshal(f.list(plugins)); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
