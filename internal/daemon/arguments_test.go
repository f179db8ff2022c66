package daemon

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/agent/server"
)

// TestWrongArguments: what is wrong in the arguments is said in words of our own, with exit status 2.
func TestWrongArguments(t *testing.T) {
	s := newStage(t)
	for args, want := range map[string]string{
		"agent --pod-cidr 10.0.0.0":     `--pod-cidr: "10.0.0.0" is no range of addresses, such as 10.88.0.0/16`,
		"agent --pod-cidr 10.0.0.0/33":  `--pod-cidr: "10.0.0.0/33" is no range of addresses, such as 10.88.0.0/16`,
		"agent --pod-cidr 10.0.0.5/16":  "--pod-cidr: 10.0.0.5/16 is an address in a range; the range is 10.0.0.0/16",
		"agent --cluster-dns localhost": `--cluster-dns: "localhost" is no address, such as 10.96.0.10`,
		"agent --runtime docker":        `--runtime "docker": there is only native`,
		"pods bench -n many":            `--number: "many" is no whole number`,
		"pods bench -n 0":               "-n 0 is no number of pods",
		"pods bench --timeout 5":        `--timeout: "5" is no duration, such as 30s or 5m`,
		"pods logs web --tail few":      `--tail: "few" is no whole number`,
	} {
		s.expect(2, "", "cleat: "+want+"\n", strings.Fields(args)...)
	}
}

// TestListenHint: who can't have the agent's address is told which flag it is.
func TestListenHint(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	_, err = server.New(server.Config{Socket: filepath.Join(dir, "agent.sock"), Listen: l.Addr().String()})
	if hint := hintFor(err); !strings.Contains(hint, "--listen "+l.Addr().String()) {
		t.Errorf("%v: hint %q", err, hint)
	}
	if hint := hintFor(errors.New("listen: address already in use")); hint != "" {
		t.Errorf("hint of another error: %q", hint)
	}
}

func TestCompletion(t *testing.T) {
	s := newStage(t)
	for _, tt := range []struct{ args, want string }{
		{"__complete pods ev", "events\tShow what happened to pods"},
		{"__complete pods logs ", "web\nkube-system/dns\n:"},
		{"__complete pods logs -n kube-system ", "dns\n:"},
		{"__complete pods logs web ", ":"},
		{"__complete pods delete web ", "kube-system/dns\n:"},
		{"__complete pods exec web -c ", "httpd\n:"},
		{"__complete pods list -n ", "default\nkube-system\n:"},
		{"__complete pods list -o ", "json\nyaml\ntable\nwide\n:"},
		{"__complete pods list ", ":4"},
	} {
		var out printed
		args := strings.Split(tt.args, " ")
		if status, errs := s.start(t.Context(), &out, "", args...); status != 0 || !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%q: status %d, %q, want it to begin with %q\n%s", tt.args, status, out.String(), tt.want, errs)
		}
	}
}
