package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
)

// socketFD is where a process finds the socket of the handshake: behind standard error.
const socketFD = 3

// Command is a process to start.
type Command struct {
	Path string   // required: the program
	Name string   // what it is called as; default Path
	Args []string // without the name
	Env  []string // the whole environment
	Dir  string   // default: the agent's
	// NetNS is the network namespace that it starts in; default the agent's.
	NetNS *netns.Handle
	// Cloneflags are the namespaces that are made for it, such as unix.CLONE_NEWUTS.
	Cloneflags uintptr
	// Files are descriptors that it gets from 4 on.
	Files []*os.File
}

// Child is a process that has said that it is ready and waits for Go.
type Child struct {
	Identity

	socket *os.File
	done   chan struct{}
}

// errEnded says that the process ended before it was ready.
var errEnded = errors.New("it ended before it was ready")

// Start starts a process in a session of its own, with nothing but /dev/null on its standard descriptors, and waits until it is ready.
// What it writes to standard error before that is in the error. When ctx ends before, it is killed.
func Start(ctx context.Context, c Command) (*Child, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	said, stderr, err := os.Pipe()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer said.Close()
	cmd := &exec.Cmd{
		Path: c.Path, Args: append([]string{c.name()}, c.Args...), Env: c.Env, Dir: c.Dir, Stderr: stderr,
		ExtraFiles:  append([]*os.File{theirs}, c.Files...),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Cloneflags: c.Cloneflags},
	}
	start := cmd.Start
	if c.NetNS != nil {
		start = func() error { return c.NetNS.Do(cmd.Start) }
	}
	err = start()
	stderr.Close()
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	child := &Child{socket: ours, done: make(chan struct{})}
	go func() {
		defer close(child.done)
		_ = cmd.Wait() // how it ended is known by other ways
	}()
	child.Identity, err = Identify(cmd.Process.Pid)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		if unready := child.ready(ctx); unready != nil {
			err = unready // also of one that has ended already, since this one has its words
		}
	}
	if err != nil {
		child.Abandon()
		return nil, fmt.Errorf("start %s: %w", c.name(), withWords(err, said))
	}
	return child, nil
}

func (c Command) name() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Path
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "handshake"), os.NewFile(uintptr(fds[1]), "handshake"), nil
}

func (c *Child) ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var word [1]byte
	_, err := io.ReadFull(c.socket, word[:])
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil: // whether it is the end of the socket or a reset
		return errEnded
	}
	return nil
}

// withWords adds what a process that has ended said.
func withWords(err error, said *os.File) error {
	if !errors.Is(err, errEnded) {
		return err
	}
	const most = 4 << 10
	text, readErr := io.ReadAll(io.LimitReader(said, most))
	if words := strings.TrimSpace(string(text)); readErr == nil && words != "" {
		return fmt.Errorf("%w: %s", err, words)
	}
	return err
}

// Go lets the process go on.
func (c *Child) Go() error {
	_, err := c.socket.Write([]byte{1})
	if err = errors.Join(err, c.socket.Close()); err != nil {
		return fmt.Errorf("let process %d go on: %w", c.PID, err)
	}
	return nil
}

// Abandon ends a process that was not let go, and waits for that.
func (c *Child) Abandon() {
	c.socket.Close()
	if err := c.Signal(unix.SIGKILL); err == nil || errors.Is(err, os.ErrProcessDone) {
		<-c.done
	}
}

// Await is the process's half of the handshake: it says that all is ready and waits for the word. An error means that whoever
// started it is gone, and then the process must end without having done anything. Afterwards nobody reads standard error any more,
// and what is written there is dropped.
func Await() error {
	f := os.NewFile(socketFD, "handshake")
	if f == nil {
		return errors.New("descriptor 3 is not open")
	}
	defer f.Close()
	var word [1]byte
	if _, err := f.Write(word[:]); err != nil {
		return fmt.Errorf("tell that it is ready: %w", err)
	}
	if _, err := io.ReadFull(f, word[:]); err != nil {
		return fmt.Errorf("wait for the word to go on: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), int(os.Stderr.Fd()), 0)
}
