//go:build peers

package reliability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
)

// reference is a runtime that calls the reference's host-local, and keeps no records.
type reference struct {
	walk *walk
	path string

	mu  sync.Mutex
	cmd *exec.Cmd // the one that runs
}

// TestModelWithTheReference is TestModel with half of the containers in the hands of the reference's program, on the same leases.
func TestModelWithTheReference(t *testing.T) {
	sandbox.Require(t)
	dir := os.Getenv("CLEAT_PEERS")
	if dir == "" {
		sandbox.Need(t, "peers", "CLEAT_PEERS is not set: run make interop")
	}
	walkAll(t, func(w *walk) {
		for i := range 2 {
			p := &reference{walk: w, path: filepath.Join(dir, "host-local")}
			w.parties = append(w.parties, p)
			w.containers(fmt.Sprintf("theirs%d-", i), 3, p)
		}
	})
}

func (p *reference) begin(verb, id string, gc libcni.GCArgs) func() (answer, error) {
	conf := p.walk.addressesAlone(poolSize)
	conf["cniVersion"], conf["name"] = cni.Current, network
	if verb == verbGC {
		conf["cni.dev/valid-attachments"] = append([]cni.Attachment{}, gc.ValidAttachments...)
	}
	stdin, err := json.Marshal(conf)
	if err != nil {
		return func() (answer, error) { return answer{Err: err.Error()}, nil }
	}
	cmd := exec.Command(p.path)
	cmd.Env = []string{"CNI_COMMAND=" + strings.ToUpper(verb), "CNI_CONTAINERID=" + id, "CNI_NETNS=" + p.walk.pod(id),
		"CNI_IFNAME=eth0", "CNI_PATH=/none"}
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(stdin), &stdout
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return func() (answer, error) { return answer{Err: err.Error()}, nil }
	}
	p.cmd = cmd
	return func() (answer, error) {
		_ = cmd.Wait() // how it ended is seen by its state
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == unix.SIGKILL {
			return answer{}, errDied
		}
		return p.answer(cmd, stdout.Bytes()), nil
	}
}

// answer reads what the program printed.
func (p *reference) answer(cmd *exec.Cmd, out []byte) answer {
	var printed struct {
		Msg string `json:"msg"`
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &printed); err != nil {
			return answer{Err: fmt.Sprintf("%q: %v", out, err)}
		}
	}
	a := answer{Err: printed.Msg}
	if a.Err == "" && !cmd.ProcessState.Success() {
		a.Err = cmd.ProcessState.String()
	}
	for _, ip := range printed.IPs {
		a.Addrs = append(a.Addrs, ip.Address.Addr().String())
	}
	return a
}

func (p *reference) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
	}
}
