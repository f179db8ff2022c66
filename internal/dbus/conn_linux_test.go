package dbus_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/dbus"
)

// listen serves one connection at an address with f.
func listen(t *testing.T, f func(c net.Conn, in *bufio.Reader)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		f(c, bufio.NewReader(c))
	}()
	return "unix:path=" + path
}

func TestDialRefused(t *testing.T) {
	address := listen(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := in.ReadString('\n'); err == nil {
			c.Write([]byte("REJECTED EXTERNAL\r\n"))
		}
	})
	if _, err := dbus.Dial(t.Context(), address); !errors.Is(err, dbus.ErrNoBus) {
		t.Errorf("error %v, want ErrNoBus", err)
	}
}

func TestDialNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close() // the socket stays, and nobody is behind it
	for _, address := range []string{"unix:path=" + path, "unix:path=" + path + ".none", "unix:abstract=" + path} {
		if _, err := dbus.Dial(t.Context(), address); !errors.Is(err, dbus.ErrNoBus) {
			t.Errorf("%s: %v, want ErrNoBus", address, err)
		}
	}
	if _, err := dbus.Dial(t.Context(), "tcp:host=localhost"); err == nil || errors.Is(err, dbus.ErrNoBus) {
		t.Errorf("another transport: %v", err)
	}
}

// TestDialSilent: a bus that says nothing is waited for as long as the context lasts.
func TestDialSilent(t *testing.T) {
	address := listen(t, func(_ net.Conn, in *bufio.Reader) { in.ReadString(0xff) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := dbus.Dial(ctx, address); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want DeadlineExceeded", err)
	}
	if _, err := dbus.Dial(ctx, address); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at an end already: %v, want DeadlineExceeded", err)
	}
}

func TestDialEnds(t *testing.T) {
	for _, answer := range []string{"", "OK 0123\r\n", "OK 0123\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"} {
		address := listen(t, func(c net.Conn, in *bufio.Reader) {
			if _, err := in.ReadString('\n'); err == nil {
				c.Write([]byte(answer))
			}
		})
		if _, err := dbus.Dial(t.Context(), address); err == nil || errors.Is(err, dbus.ErrNoBus) {
			t.Errorf("%q: error %v", answer, err)
		}
	}
}
