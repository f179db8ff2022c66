package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleKey is the variable that makes this program one of the processes that the tests start.
const roleKey = "CLEAT_SPAWN_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleKey) {
	case "":
		os.Exit(m.Run())
	case "good":
		if err := Await(); err != nil {
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "nobody reads this")
		if _, err := os.NewFile(socketFD+1, "pipe").Write([]byte("went on")); err != nil {
			os.Exit(1)
		}
		select {}
	case "broken":
		fmt.Fprintln(os.Stderr, "the namespace is broken")
		os.Exit(1)
	case "slow":
		select {}
	}
}

// command returns a command and the pipe into which it writes when it goes on; start closes the other end.
func command(t *testing.T, role string) (Command, *os.File) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return Command{Path: self, Name: "child", Env: append(os.Environ(), roleKey+"="+role), Files: []*os.File{w}}, r
}

// said waits until all processes that could write into a pipe have done it or have ended.
func said(t *testing.T, c Command, pipe *os.File) string {
	t.Helper()
	c.Files[0].Close()
	text, err := io.ReadAll(pipe)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func start(t *testing.T, c Command) *Child {
	t.Helper()
	child, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-child.done
	})
	return child
}

func TestStartGoSignalWait(t *testing.T) {
	t.Parallel()
	c, pipe := command(t, "good")
	child := start(t, c)
	if err := child.Go(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 16)
	if n, err := pipe.Read(word); err != nil || string(word[:n]) != "went on" {
		t.Fatalf("it said %q, %v", word[:n], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait(t.Context()) }()
	if err := child.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("wait: %v", err)
	}
	<-child.done
	if err := child.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to the dead: %v, want %v", err, os.ErrProcessDone)
	}
	if err := child.Wait(t.Context()); err != nil || child.Alive() {
		t.Errorf("wait for the dead: %v, alive: %v", err, child.Alive())
	}
}

func TestNobodyStaysWhoWasNotLetGo(t *testing.T) {
	t.Parallel()
	t.Run("abandoned", func(t *testing.T) {
		c, pipe := command(t, "good")
		child := start(t, c)
		child.Abandon()
		if text := said(t, c, pipe); child.Alive() || text != "" {
			t.Errorf("alive: %v, said %q", child.Alive(), text)
		}
	})
	t.Run("its starter died", func(t *testing.T) {
		c, pipe := command(t, "good")
		child := start(t, c)
		child.socket.Close() // as the kernel does for the dead
		if err := child.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := said(t, c, pipe); text != "" {
			t.Errorf("said %q", text)
		}
	})
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	t.Run("ends with words", func(t *testing.T) {
		c, _ := command(t, "broken")
		_, err := Start(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), "start child: it ended before it was ready: the namespace is broken") {
			t.Errorf("start: %v", err)
		}
	})
	t.Run("no program", func(t *testing.T) {
		_, err := Start(t.Context(), Command{Path: "/does/not/exist"})
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("start: %v", err)
		}
	})
	t.Run("never ready", func(t *testing.T) {
		c, _ := command(t, "slow")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := Start(ctx, c)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("start: %v", err)
		}
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := self.Wait(ctx); !errors.Is(err, gone) {
		t.Errorf("wait: %v, want %v", err, gone)
	}
}

// Another process with the number is another one.
func TestIdentityOfAnother(t *testing.T) {
	t.Parallel()
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	earlier := Identity{PID: self.PID, Start: self.Start - 1}
	if earlier.Alive() {
		t.Error("an earlier process of the number is alive")
	}
	if err := earlier.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal: %v", err)
	}
	if (Identity{}).Alive() || !(Identity{}).IsZero() {
		t.Error("nobody is alive")
	}
}

func TestParseStat(t *testing.T) {
	rest := " S 1" + strings.Repeat(" 0", 17) + " 4711 0"
	for _, tt := range []struct {
		name, stat string
		start      uint64
		ok         bool
	}{
		{"plain", "12 (pause)" + rest, 4711, true},
		{"name with parentheses", "12 (a) S 1 (b)" + rest, 4711, true},
		{"cut short", "12 (pause) S 1", 0, false},
		{"no name", "12", 0, false},
		{"empty", "", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start, _, err := parseStat([]byte(tt.stat))
			if start != tt.start || (err == nil) != tt.ok {
				t.Errorf("parseStat = %d, %v", start, err)
			}
		})
	}
}
