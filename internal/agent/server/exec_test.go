package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// exec has some commands.
func (b *bed) exec(ctx context.Context, uid types.UID, name string, command container.Command) (int, error) {
	switch command.Args[0] {
	case "id":
		fmt.Fprintf(command.Stdout, "%s %s %v", uid, name, command.Args)
		fmt.Fprint(command.Stderr, "as asked")
		return 3, nil
	case "cat":
		_, err := io.Copy(command.Stdout, command.Stdin)
		return 0, err
	case "flood":
		_, err := command.Stdout.Write(bytes.Repeat([]byte("x"), flood))
		return 0, err
	case "hang":
		fmt.Fprint(command.Stdout, "up")
		<-ctx.Done()
		b.hung <- ctx.Err()
		return 0, ctx.Err()
	case "break":
		fmt.Fprint(command.Stdout, "half")
		return 0, errors.New("the container has ended")
	}
	return 0, errors.New("find " + command.Args[0] + ": not found")
}

// flood is more than what is held at once.
const flood = 3*maxPart + 5

func TestExec(t *testing.T) {
	b := newBed(t)
	for _, tt := range []struct {
		name                string
		req                 ExecRequest
		stdout, stderr, err string
		code                int
	}{
		{"says", ExecRequest{Command: []string{"id", "-u"}}, "u1 main [id -u]", "as asked", "", 3},
		{"container", ExecRequest{Container: "side", Command: []string{"id"}}, "u1 side [id]", "as asked", "", 3},
		{"large", ExecRequest{Command: []string{"flood"}}, strings.Repeat("x", flood), "", "", 0},
		{"long", ExecRequest{Command: []string{"id", strings.Repeat("y", 100_000)}}, "u1 main [id " + strings.Repeat("y", 100_000) + "]", "as asked", "", 3},
		{"breaks", ExecRequest{Command: []string{"break"}}, "half", "", "the container has ended", 0},
		{"no-program", ExecRequest{Command: []string{"nope"}}, "", "", "find nope: not found", 0},
		{"no-container", ExecRequest{Container: "none", Command: []string{"id"}}, "", "", "[main side]", 0},
		{"no-command", ExecRequest{}, "", "", "no command", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code, err := b.Exec(t.Context(), "default", "web-node1", tt.req, Streams{Stdout: &out, Stderr: &errs})
			if code != tt.code || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%d, %v, want %d, %s", code, err, tt.code, tt.err)
			}
			if out.String() != tt.stdout || errs.String() != tt.stderr {
				t.Errorf("printed %.100q and %.100q, want %.100q and %.100q", out.String(), errs.String(), tt.stdout, tt.stderr)
			}
		})
	}
}

// TestExecTalks: what the command says comes while it still gets something.
func TestExecTalks(t *testing.T) {
	b := newBed(t)
	inRead, in := io.Pipe()
	out, outWrite := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		code, err := b.Exec(t.Context(), "default", "web-node1", ExecRequest{Command: []string{"cat"}}, Streams{Stdin: inRead, Stdout: outWrite, Stderr: io.Discard})
		if err == nil && code != 0 {
			err = fmt.Errorf("it ended with %d", code)
		}
		ended <- err
	}()
	for _, word := range []string{"one", "two"} {
		if _, err := io.WriteString(in, word); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(word))
		if _, err := io.ReadFull(out, got); err != nil || string(got) != word {
			t.Fatalf("%q, %v, want %s", got, err, word)
		}
	}
	in.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestExecEndsWithItsCaller: with input and without.
func TestExecEndsWithItsCaller(t *testing.T) {
	b := newBed(t)
	never, hold := io.Pipe()
	defer hold.Close()
	for _, stdin := range []io.Reader{nil, never} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.Exec(ctx, "default", "web-node1", ExecRequest{Command: []string{"hang"}}, Streams{Stdin: stdin, Stdout: onWrite(cancel), Stderr: io.Discard})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
		if err := <-b.hung; !errors.Is(err, context.Canceled) {
			t.Errorf("the command ended by %v", err)
		}
	}
}

// onWrite is called with the first word.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
