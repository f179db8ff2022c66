package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/internal/netns"
)

// The demo's pods do with the network what pods do: ping and fetch. Each runs in its namespace.

// serve answers every HTTP request to port in ns with a line that names the pod and who asked, until
// stop is called.
func serve(ns *netns.Handle, name string, port int) (stop func(), err error) {
	var l net.Listener
	err = ns.Do(func() error {
		var err error
		l, err = net.Listen("tcp4", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on port %d in %s: %w", port, name, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed by stop
			}
			answer(conn, name)
		}
	}()
	return func() {
		l.Close()
		<-done
	}, nil
}

// answer reads one request to its empty line and answers it. A client that goes away early is its own
// loss: it reports what it did not get.
func answer(conn net.Conn, name string) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if strings.TrimSpace(line) == "" {
			break
		}
	}
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	body := fmt.Sprintf("hello from %s, asked by %s\n", name, host)
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}

// fetch gets http://addr/ from within ns and returns the body.
func fetch(ctx context.Context, ns *netns.Handle, addr netip.AddrPort) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var conn net.Conn
	err := ns.Do(func() error {
		var err error
		// An address, not a name: the socket is made on this thread, in the namespace.
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr.String())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("fetch http://%s/: %w", addr, err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", addr); err != nil {
		return "", fmt.Errorf("fetch http://%s/: %w", addr, err)
	}
	reply, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	if err != nil {
		return "", fmt.Errorf("fetch http://%s/: %w", addr, err)
	}
	head, body, ok := bytes.Cut(reply, []byte("\r\n\r\n"))
	if !ok || !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return "", fmt.Errorf("fetch http://%s/: answer %q", addr, firstLine(string(reply)))
	}
	return string(body), nil
}

// ping runs the system's ping in ns and returns what it printed. Replies must come to all requests.
func ping(ctx context.Context, ns *netns.Handle, addr netip.Addr) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "ping", pingArgs(addr)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	// The process is made by the thread that calls Start, in that thread's namespace.
	if err := ns.Do(cmd.Start); err != nil {
		return "", fmt.Errorf("start ping: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("ping %s: %w: %s", addr, err, lastLine(out.String()))
	}
	return out.String(), nil
}

func pingArgs(addr netip.Addr) []string {
	return []string{"-q", "-c", "3", "-i", "0.2", "-W", "2", addr.String()}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(line)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// interfaces lists the interfaces of ns.
func interfaces(ns *netns.Handle) ([]string, error) {
	var names []string
	err := ns.Do(func() error {
		all, err := net.Interfaces()
		for _, i := range all {
			names = append(names, i.Name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	return names, nil
}
