package traffic

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/netns"
)

// At is host and port as one word.
func At(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Patience is how long a client waits for an answer that should come; refusal for one that should not.
const (
	Patience = 5 * time.Second
	refusal  = 300 * time.Millisecond
)

// Call is who asks whom, and what the answer must be: "NAME sees ADDRESS", "no connection" or "no answer".
type Call struct {
	Name    string
	From    *netns.Handle
	Network string
	To      string
	Want    string
}

// Expect makes calls. One that must be refused may be so in either way.
func (n *Net) Expect(t *testing.T, calls ...Call) {
	t.Helper()
	for _, c := range calls {
		refused := strings.HasPrefix(c.Want, "no ")
		wait := Patience
		if refused {
			wait = refusal
		}
		got := n.ask(c, wait)
		if got != c.Want && !(refused && strings.HasPrefix(got, "no ")) {
			t.Errorf("%s: %s %s: got %q, want %q", c.Name, c.Network, c.To, got, c.Want)
		}
	}
}

// Serve answers everyone with the server's name and the address that they seem to come from, until the test ends.
func (n *Net) Serve(ns *netns.Handle, network, addr, name string) {
	n.t.Helper()
	err := ns.Do(func() error {
		if network == "udp" {
			c, err := net.ListenPacket(network, addr)
			if err != nil {
				return err
			}
			n.t.Cleanup(func() { c.Close() })
			go serveDatagrams(c, name)
			return nil
		}
		l, err := net.Listen(network, addr)
		if err != nil {
			return err
		}
		n.t.Cleanup(func() { l.Close() })
		go serveStreams(l, name)
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

func serveDatagrams(c net.PacketConn, name string) {
	buf := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		c.WriteTo([]byte(string(buf[:n])+answer(name, from)), from) // a lost answer is the client's timeout
	}
}

func serveStreams(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(c, answer(name, c.RemoteAddr())) // likewise
		c.Close()
	}
}

func answer(name string, from net.Addr) string {
	ap := netip.MustParseAddrPort(from.String())
	return name + " sees " + ap.Addr().Unmap().String()
}

// ask makes a call and returns the answer, or why there is none.
func (n *Net) ask(c Call, wait time.Duration) string {
	ctx, cancel := context.WithTimeout(n.t.Context(), wait)
	defer cancel()
	var conn net.Conn
	err := c.From.Do(func() error {
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, c.Network, c.To)
		return err
	})
	if err != nil {
		return "no connection"
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	return Exchange(conn, c.Network, deadline)
}

// Exchange sends something and returns what comes back. A datagram may be lost, so it is sent again; an answer that comes late, to an
// earlier call, is passed over.
func Exchange(conn net.Conn, network string, deadline time.Time) string {
	question := ""
	if network == "udp" {
		question = strconv.FormatInt(time.Now().UnixNano(), 10) + "?"
	}
	buf := make([]byte, 512)
	for time.Now().Before(deadline) {
		if _, err := conn.Write([]byte(question)); err != nil {
			return "no answer"
		}
		next := time.Now().Add(200 * time.Millisecond)
		if network != "udp" || next.After(deadline) {
			next = deadline
		}
		if err := conn.SetReadDeadline(next); err != nil {
			return "no answer"
		}
		n, err := conn.Read(buf)
		if said, ok := strings.CutPrefix(string(buf[:n]), question); ok && n > 0 {
			return said
		}
		if timeout, ok := errors.AsType[net.Error](err); err != nil && (!ok || !timeout.Timeout()) {
			return "no answer"
		}
	}
	return "no answer"
}
