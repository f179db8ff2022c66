// Package dbus calls methods over a D-Bus message bus: it connects by a unix socket as the user that this process is, sends a
// call with strings, and waits for its answer no longer than a context lasts.
//
// It is that much of the D-Bus specification (version 0.43) and no more. What it leaves out: other transports, of which one starts
// programs; arguments and answers of other types than strings, numbers of 32 bits and truth values; passing descriptors.
package dbus

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoBus says that there is no bus for this process: no socket, nobody behind it, or one that does not let it in.
var ErrNoBus = errors.New("no message bus")

// The bus itself, as a destination of calls.
const (
	BusName = "org.freedesktop.DBus"
	BusPath = "/org/freedesktop/DBus"
)

// Error is an error that answers a call.
type Error struct {
	Name string // org.freedesktop.DBus.Error.ServiceUnknown
	Text string // for people; some services begin it with a code
}

// Error gives text and name.
func (e *Error) Error() string {
	if e.Text == "" {
		return e.Name
	}
	return e.Text + " (" + e.Name + ")"
}

// Conn is a connection to a bus. It is for one goroutine.
type Conn struct {
	socket *os.File
	in     *bufio.Reader
	serial uint32
}

// Dial connects to the bus at an address of D-Bus's form (unix:path=/run/dbus/system_bus_socket), the first of several that there
// is. The error is ErrNoBus if there is none for this process.
func Dial(ctx context.Context, address string) (*Conn, error) {
	paths, err := socketsOf(address)
	if err != nil {
		return nil, fmt.Errorf("connect to message bus: %w", err)
	}
	errs := []error{ErrNoBus}
	for _, path := range paths {
		c, err := dial(ctx, path)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, ErrNoBus) {
			return nil, fmt.Errorf("connect to message bus %s: %w", path, err)
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("connect to message bus %s: %w", address, errors.Join(errs...))
}

func dial(ctx context.Context, path string) (*Conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	socket, err := connect(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w", ErrNoBus, err)
	}
	if err != nil {
		return nil, err
	}
	c := &Conn{socket: socket, in: bufio.NewReader(socket)}
	if err := c.within(ctx, c.enter); err != nil {
		socket.Close()
		return nil, err
	}
	return c, nil
}

// connect connects to a unix socket. Package net, which could do that, would add half a megabyte to a plugin: how names are looked up.
func connect(path string) (*os.File, error) {
	// Where there is no bus, this is much less work than a socket that is closed again.
	if _, err := os.Lstat(path); err != nil && !strings.HasPrefix(path, "@") {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	// A socket of the kind is connected at once or, where too many wait already, not at all (EAGAIN).
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		syscall.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.socket.Close() }

// within runs f, whose reading and writing ends with ctx. The error is then the context's.
func (c *Conn) within(ctx context.Context, f func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		// It can only fail on a connection that is closed, on which nobody waits.
		_ = c.socket.SetDeadline(time.Unix(1, 0))
	})
	defer stop()
	err := f()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// enter says who we are, which the kernel proves (EXTERNAL), and asks for a name on the bus, as every client has to.
func (c *Conn) enter() error {
	uid := hex.EncodeToString([]byte(strconv.Itoa(os.Getuid())))
	if _, err := c.socket.Write([]byte("\x00AUTH EXTERNAL " + uid + "\r\n")); err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	if word, _, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), " "); word != "OK" {
		return fmt.Errorf("authenticate as user %d: %w: the bus answers %s", os.Getuid(), ErrNoBus, word)
	}
	if _, err := c.socket.Write([]byte("BEGIN\r\n")); err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	_, err = c.call(BusCall("Hello"))
	return err
}

// BusCall is a call of a method of the bus itself.
func BusCall(member string, args ...any) Message {
	return Message{Kind: MethodCall, Destination: BusName, Path: BusPath, Interface: BusName, Member: member, Body: args}
}

// Call sends a call and returns the answer's body. What else arrives meanwhile, such as signals, is passed over. The error is an
// [*Error] if that is the answer.
func (c *Conn) Call(ctx context.Context, m Message) ([]any, error) {
	var body []any
	err := c.within(ctx, func() error {
		var err error
		body, err = c.call(m)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", m.Member, err)
	}
	return body, nil
}

func (c *Conn) call(m Message) ([]any, error) {
	serial, err := c.Send(m)
	if err != nil {
		return nil, err
	}
	for {
		answer, err := c.Receive()
		switch {
		case err != nil:
			return nil, err
		case answer.ReplyTo != serial:
		case answer.Kind == MethodReturn:
			return answer.Body, nil
		case answer.Kind == ErrorReply:
			text, _ := first[string](answer.Body)
			return nil, &Error{Name: answer.ErrorName, Text: text}
		}
	}
}

// first is the first value of a body, if it is of the type.
func first[T any](body []any) (T, bool) {
	var none T
	if len(body) == 0 {
		return none, false
	}
	v, ok := body[0].(T)
	return v, ok
}

// Send sends a message and returns the serial number that it got. It does not wait for an answer.
func (c *Conn) Send(m Message) (uint32, error) {
	c.serial++
	m.serial = c.serial
	data, err := m.encode()
	if err != nil {
		return 0, err
	}
	_, err = c.socket.Write(data)
	return c.serial, err
}

// Receive waits for the next message, whatever it is.
func (c *Conn) Receive() (Message, error) { return readMessage(c.in) }
