package traffic

import (
	"cmp"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/cleat-cni/cleat/internal/netns"
)

// Transfer is a stream from a server to a client.
type Transfer struct {
	From *netns.Handle
	At   string // the server's address and port
	To   *netns.Handle
	// Skip is how many bytes are not measured: what a limit lets through at once, and the start of the connection.
	Skip int64
	MTU  int // of the way; default 1500
}

// measured is how long a transfer is looked at. A limit makes good what it missed while the machine was busy, up to its burst, so
// that what disturbs is the time at which the first and the last byte were read: a tenth of a second is 3 % of it.
const measured = 3 * time.Second

// Rate runs a transfer and returns the bits a second, headers of the frames included.
func (n *Net) Rate(tr Transfer) float64 {
	n.t.Helper()
	var l net.Listener
	var c net.Conn
	err := tr.From.Do(func() error {
		var err error
		l, err = net.Listen("tcp", tr.At)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			buf := make([]byte, 64<<10)
			for err == nil { // until the client has seen enough
				_, err = c.Write(buf)
			}
			c.Close()
		}
	}()
	err = tr.To.Do(func() error {
		var err error
		c, err = net.DialTimeout("tcp", tr.At, Patience)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		n.t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, c, tr.Skip); err != nil {
		n.t.Fatal(err)
	}
	start, seen, buf := time.Now(), 0, make([]byte, 64<<10)
	for time.Since(start) < measured {
		got, err := c.Read(buf)
		if err != nil {
			n.t.Fatal(err)
		}
		seen += got
	}
	mtu := cmp.Or(tr.MTU, 1500)
	headers := 20 + 20 + 12 // of IPv4, and of TCP with timestamps
	if netip.MustParseAddrPort(tr.At).Addr().Is6() {
		headers += 20
	}
	return float64(seen) * 8 * float64(mtu+14) / float64(mtu-headers) / time.Since(start).Seconds()
}
