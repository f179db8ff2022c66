package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/planned"
)

// machine is a node on the real kernel: a namespace that plays the host, with another one outside it that it
// reaches by the interface up0.
type machine struct {
	*node
	t       *testing.T
	kernel  *kernel.Kernel
	host    *netns.Handle
	outside *netns.Handle
	// iptables is the folder of the programs of iptables which the networks of the pods ask for; "" if they don't.
	iptables string
}

// Addresses of the host and of the machine outside.
var (
	hostAddr    = [2]string{"192.0.2.1", "2001:db8::1"}
	outsideAddr = [2]string{"192.0.2.9", "2001:db8::9"}
)

func newMachine(t *testing.T) *machine { return newMachineOf(t, "") }

// onEachBackend runs a test on machines with each of the backends.
func onEachBackend(t *testing.T, run func(t *testing.T, m *machine)) {
	t.Helper()
	t.Run("nftables", func(t *testing.T) { run(t, newMachine(t)) })
	for _, kind := range []string{"legacy", "nft"} {
		t.Run("iptables-"+kind, func(t *testing.T) {
			sandbox.Require(t)
			run(t, newMachineOf(t, sandbox.Iptables(t, kind)))
		})
	}
}

// rules lists all that filters and translates packets, without counters and comments of the programs.
func (m *machine) rules() string {
	m.t.Helper()
	text := m.run(m.host, "nft -s list ruleset")
	if m.iptables == "" {
		return text
	}
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		for line := range strings.Lines(m.run(m.host, m.iptables+"/"+program)) {
			if line[0] != '#' {
				line, _, _ = strings.Cut(line, " [")
				text += strings.TrimSpace(line) + "\n"
			}
		}
	}
	return text
}

func newMachineOf(t *testing.T, iptables string) *machine {
	t.Helper()
	sandbox.Require(t)
	for _, program := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			sandbox.Need(t, program, err.Error())
		}
	}
	m := &machine{t: t, host: sandbox.Namespace(t), outside: sandbox.Namespace(t), iptables: iptables}
	m.run(m.host, "ip link set lo up")
	m.run(m.outside, "ip link set lo up")
	m.run(m.host, fmt.Sprintf("ip link add up0 type veth peer name up0 netns /proc/%d/fd/%d", pid(), m.outside.FD()))
	for i, ns := range []*netns.Handle{m.host, m.outside} {
		m.run(ns, "ip link set up0 up")
		addr := [][2]string{hostAddr, outsideAddr}[i]
		m.run(ns, "ip addr add "+addr[0]+"/24 dev up0")
		m.run(ns, "ip addr add "+addr[1]+"/64 dev up0 nodad")
	}
	k, err := kernel.New(kernel.Config{Host: m.host, Programs: iptables})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	m.kernel, m.node = k, newNode(planned.Wrap[*kernel.Session](k))
	return m
}

// run runs a command line, split at blanks, in a namespace.
func (m *machine) run(ns *netns.Handle, line string) string {
	m.t.Helper()
	return m.runWith(ns, line, "")
}

// runWith is run with a standard input.
func (m *machine) runWith(ns *netns.Handle, line, input string) string {
	m.t.Helper()
	words := strings.Fields(line)
	var out []byte
	err := ns.Do(func() error {
		cmd := exec.CommandContext(m.t.Context(), words[0], words[1:]...)
		cmd.Stdin = strings.NewReader(input)
		var err error
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// runAnyway is run for clean-up, when the test's context has ended.
func (m *machine) runAnyway(ns *netns.Handle, line string) {
	m.t.Helper()
	words := strings.Fields(line)
	err := ns.Do(func() error { return exec.Command(words[0], words[1:]...).Run() })
	if err != nil {
		m.t.Errorf("%s: %v", line, err)
	}
}

// pod is a namespace that is attached, in which servers run.
type pod struct {
	*attachment
	ns *netns.Handle
}

func (m *machine) newPod(i int, network string, ports ...cni.PortMapping) *pod {
	ns := sandbox.Namespace(m.t)
	if m.iptables != "" {
		network = strings.NewReplacer(`"ipMasq":true`, `"ipMasq":true,"ipMasqBackend":"iptables"`,
			`"type":"portmap"`, `"type":"portmap","backend":"iptables"`, `"type":"firewall"`, `"type":"firewall","backend":"iptables"`).Replace(network)
	}
	return &pod{&attachment{network: network, pod: i, netns: ns.Path(), ports: ports}, ns}
}

// attach makes a pod that is attached and serves on these addresses ("tcp :80").
func (m *machine) attach(p *pod, serve ...string) *pod {
	m.t.Helper()
	m.add(m.t, p.attachment)
	for _, s := range serve {
		network, addr, _ := strings.Cut(s, " ")
		m.serve(p.ns, network, addr, fmt.Sprintf("pod%d", p.pod))
	}
	return p
}

// serve answers everyone with the server's name and the address that they seem to come from, until the test ends.
func (m *machine) serve(ns *netns.Handle, network, addr, name string) {
	m.t.Helper()
	err := ns.Do(func() error {
		if network == "udp" {
			c, err := net.ListenPacket(network, addr)
			if err != nil {
				return err
			}
			m.t.Cleanup(func() { c.Close() })
			go serveDatagrams(c, name)
			return nil
		}
		l, err := net.Listen(network, addr)
		if err != nil {
			return err
		}
		m.t.Cleanup(func() { l.Close() })
		go serveStreams(l, name)
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func serveDatagrams(c net.PacketConn, name string) {
	buf := make([]byte, 512)
	for {
		_, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		c.WriteTo([]byte(answer(name, from)), from) // a lost answer is the client's timeout
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

// patience is how long a client waits for an answer that should come; refusal for one that should not.
const (
	patience = 5 * time.Second
	refusal  = 300 * time.Millisecond
)

func deadline(wait time.Duration) time.Time { return time.Now().Add(wait) }

// ask calls a server from a namespace and returns its answer, or why there is none.
func (m *machine) ask(ns *netns.Handle, network, addr string, wait time.Duration) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), wait)
	defer cancel()
	var conn net.Conn
	err := ns.Do(func() error {
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		return err
	})
	if err != nil {
		return "no connection"
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	return exchange(conn, network, deadline)
}

// exchange sends something and returns what comes back. A datagram may be lost, so it is sent again.
func exchange(conn net.Conn, network string, deadline time.Time) string {
	buf := make([]byte, 512)
	for time.Now().Before(deadline) {
		if network == "udp" {
			if _, err := conn.Write([]byte("?")); err != nil {
				return "no answer"
			}
		}
		next := time.Now().Add(200 * time.Millisecond)
		if network != "udp" || next.After(deadline) {
			next = deadline
		}
		if err := conn.SetReadDeadline(next); err != nil {
			return "no answer"
		}
		n, err := conn.Read(buf)
		if n > 0 {
			return string(buf[:n])
		}
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
			return "no answer"
		}
	}
	return "no answer"
}
