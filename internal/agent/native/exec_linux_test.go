package native

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

func TestExec(t *testing.T) {
	n := newNode(t)
	c := shell("main", "sleep 600")
	p := pod("exec", c)
	n.run(t, p)
	id := n.status(t, p).FindContainer("main").ID
	for _, tt := range []struct {
		name    string
		command []string
		out     string
		code    int
		fails   bool
	}{
		{"says", []string{"sh", "-c", "echo out; echo err >&2; hostname"}, "out\nerr\nexec\n", 0, false},
		{"exit-code", []string{"sh", "-c", "exit 4"}, "", 4, false},
		{"no-program", []string{"nope"}, "", 0, true},
		{"leaves-a-child", []string{"sh", "-c", "sleep 600 & echo hi"}, "hi\n", 0, false},
		{"floods", []string{"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"}, strings.Repeat("x", maxExecOutput), 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, code, err := n.Exec(t.Context(), id, tt.command)
			if string(out) != tt.out || code != tt.code || (err != nil) != tt.fails {
				t.Errorf("exec: %q, %d, %v", out, code, err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := n.Exec(ctx, id, []string{"sleep", "600"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that hangs: %v", err)
	}
}

// TestRun runs commands in a container of the host, and in one of an image.
func TestRun(t *testing.T) {
	for name, c := range map[string]v1.Container{
		"host":  shell("main", "exec sleep 600"),
		"image": {Name: "main", Image: "busybox:1", Command: []string{"sleep", "600"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if c.Image != "" {
				n.needImages(t)
			}
			p := pod("run", c)
			n.run(t, p)
			r := ran{n, n.status(t, p).FindContainer("main").ID}
			r.wants(t, "echo out; echo err >&2; exit 4", nil, "out\n", "err\n", 4)
			r.wants(t, "cat; echo end", strings.NewReader("all of it\n"), "all of it\nend\n", "", 0)
			r.wants(t, "head -c 3000000 /dev/zero | tr '\\0' x", nil, strings.Repeat("x", 3000000), "", 0)
			r.wants(t, "cat >/dev/null; exit 5", strings.NewReader(strings.Repeat("x", 3000000)), "", "", 5)
			never, hold := io.Pipe()
			defer hold.Close()
			r.wants(t, "echo I do not listen", never, "I do not listen\n", "", 0)
			r.wants(t, "sleep 600 & echo left alone", nil, "left alone\n", "", 0)
			if code, err := n.Run(t.Context(), r.id, container.Command{Args: []string{"nope"}, Stdout: io.Discard, Stderr: io.Discard}); err == nil || !strings.Contains(err.Error(), "nope") {
				t.Errorf("a program that is not there: %d, %v", code, err)
			}
			r.killed(t)
		})
	}
}

// ran is a container in which commands are run.
type ran struct {
	*node
	id string
}

func (r ran) wants(t *testing.T, script string, stdin io.Reader, stdout, stderr string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	code, err := r.Run(ctx, r.id, container.Command{Args: []string{"sh", "-c", script}, Stdin: stdin, Stdout: &out, Stderr: &errs})
	if code != want || err != nil || out.String() != stdout || errs.String() != stderr {
		t.Errorf("%s: %d, %v, printed %.100q and %.100q; want %d, %.100q and %.100q", script, code, err, out.String(), errs.String(), want, stdout, stderr)
	}
}

// killed wants a command that its caller leaves to have ended.
func (r ran) killed(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, r.id, container.Command{Args: []string{"sh", "-c", "echo up; exec sleep 4321"}, Stdout: out, Stderr: out})
		out.Close()
		ended <- err
	}()
	if _, err := said.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, said) }() // until it is closed
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a command whose caller is gone: %v", err)
	}
	r.wants(t, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep [4]321'", nil, "0\n", "", 1)
}
