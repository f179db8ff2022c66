package kernel_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/planned"
)

func TestContract(t *testing.T) {
	sandbox.Require(t)
	kerneltest.Contract(t, newFixture)
}

// TestMemoryAgrees holds the kernel in memory to this one in cases that nobody thought of.
func TestMemoryAgrees(t *testing.T) {
	sandbox.Require(t)
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			kerneltest.Agree(t, newFixture(t), kerneltest.NewMemory(kerneltest.Config{}).Fixture(t), seed)
		})
	}
}

func newFixture(t *testing.T) kerneltest.Fixture {
	return newFixtureOf(t, newMachine(t), kernel.Config{})
}

func newFixtureOf(t *testing.T, m *machine, cfg kernel.Config) kerneltest.Fixture {
	cfg.Host = m.host
	k, err := kernel.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return kerneltest.Fixture{
		Kernel:    planned.Wrap[*kernel.Session](k),
		HostPath:  m.host.Path(),
		NewPod:    m.newPod,
		RemovePod: m.removePod,
		NewFile:   m.newFile,
		AddBridge: func(path, name string) {
			m.run(path, "ip", "link", "add", name, "type", "bridge")
			m.run(path, "ip", "link", "set", name, "up")
		},
		AddAddr: func(path, dev string, p netip.Prefix) {
			m.run(path, "ip", "addr", "add", p.String(), "dev", dev, "nodad")
		},
		DelLink: func(path, name string) { m.run(path, "ip", "link", "del", name) },
		DelRoute: func(path string, dst netip.Prefix) {
			m.run(path, "ip", "route", "del", dst.String())
		},
		Text: m.text,
	}
}

// machine is a host's namespace with pods, worked on by iproute2 and nft: by hand, as far as package
// kernel is concerned.
type machine struct {
	t    *testing.T
	host *netns.Handle
	dir  string
	pods atomic.Int64
}

func newMachine(t *testing.T) *machine {
	for _, program := range []string{"ip", "tc", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			sandbox.Need(t, program, err.Error())
		}
	}
	m := &machine{t: t, host: sandbox.Namespace(t), dir: t.TempDir()}
	m.run("", "ip", "link", "set", "lo", "up")
	return m
}

func (m *machine) newPod() string {
	m.t.Helper()
	path := filepath.Join(m.dir, fmt.Sprintf("pod%d", m.pods.Add(1)))
	h, err := netns.Mount(path)
	if err != nil {
		m.t.Fatal(err)
	}
	h.Close()
	m.t.Cleanup(func() { m.removePod(path) })
	return path
}

// removePod takes the namespace's name away and waits until it has ended: the kernel says so by the end of the
// host's links that lead into it.
func (m *machine) removePod(path string) {
	m.t.Helper()
	nl, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: m.host.FD()})
	if err != nil {
		m.t.Fatal(err)
	}
	defer nl.Close()
	if err := errors.Join(nl.JoinGroup(unix.RTNLGRP_LINK), nl.SetReadDeadline(time.Now().Add(10*time.Second))); err != nil {
		m.t.Fatal(err)
	}
	leading := map[uint32]bool{}
	if h, err := netns.Open(path); err == nil {
		h.Close()
		for _, l := range m.list(path, "ip", "-j", "link") {
			if index, ok := l["link_index"].(float64); ok {
				leading[uint32(index)] = true
			}
		}
	}
	if err := netns.Unmount(path); err != nil {
		m.t.Error(err)
	}
	for len(leading) > 0 {
		msgs, err := nl.Receive()
		if err != nil {
			m.t.Fatalf("wait for the end of %s: %v", path, err)
		}
		for _, msg := range msgs {
			if msg.Header.Type == unix.RTM_DELLINK && msg.Data[0] == unix.AF_UNSPEC {
				delete(leading, binary.NativeEndian.Uint32(msg.Data[4:]))
			}
		}
	}
}

func (m *machine) newFile() string {
	m.t.Helper()
	path := filepath.Join(m.dir, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// run runs a program in a namespace and returns its output.
func (m *machine) run(path string, args ...string) []byte {
	m.t.Helper()
	ns := m.host
	if path != "" {
		h, err := netns.Open(path)
		if err != nil {
			m.t.Fatal(err)
		}
		defer h.Close()
		ns = h
	}
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = exec.CommandContext(context.WithoutCancel(m.t.Context()), args[0], args[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		m.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return out
}

// table is what a program lists as JSON: objects of any fields.
type table []map[string]any

func (m *machine) list(path string, args ...string) table {
	m.t.Helper()
	out := m.run(path, args...)
	var list table
	if len(out) == 0 {
		return nil
	}
	if err := json.Unmarshal(out, &list); err != nil {
		m.t.Fatalf("%v: %v in %s", args, err, out)
	}
	return list
}

// line is one object with some of its fields, as a line.
func line(kind string, o map[string]any, fields ...string) string {
	picked := map[string]any{}
	for _, f := range fields {
		if v, ok := o[f]; ok {
			picked[f] = v
		}
	}
	text, err := json.Marshal(picked) // sorts the keys
	if err != nil {
		return err.Error()
	}
	return kind + " " + string(text)
}

func (m *machine) text(path string) string {
	m.t.Helper()
	lines := slices.Concat(m.links(path), m.routes(path), m.traffic(path), m.nft(path))
	lines = append(lines, "ip_forward "+strings.TrimSpace(string(m.run(path, "cat", "/proc/sys/net/ipv4/ip_forward"))))
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func (m *machine) links(path string) []string {
	m.t.Helper()
	var lines []string
	for _, l := range m.list(path, "ip", "-j", "-d", "addr") {
		flags, _ := l["flags"].([]any)
		l["up"], l["promisc"] = slices.Contains(flags, any("UP")), slices.Contains(flags, any("PROMISC"))
		info, _ := l["linkinfo"].(map[string]any)
		l["kind"] = info["info_kind"]
		if port, ok := info["info_slave_data"].(map[string]any); ok {
			l["hairpin"], l["isolated"] = port["hairpin"], port["isolated"]
		}
		lines = append(lines, line("link", l, "ifname", "kind", "mtu", "master", "up", "promisc", "ifalias", "hairpin", "isolated"))
		addrs, _ := l["addr_info"].([]any)
		for _, a := range addrs {
			a, _ := a.(map[string]any)
			own := a["family"] == "inet6" && a["scope"] == "link" || l["ifname"] == "lo" && a["scope"] == "host"
			if !own { // the kernel gives and takes these by itself
				a["dev"] = l["ifname"]
				lines = append(lines, line("addr", a, "dev", "local", "prefixlen", "noprefixroute"))
			}
		}
	}
	return lines
}

func (m *machine) routes(path string) []string {
	m.t.Helper()
	var lines []string
	for _, family := range []string{"-4", "-6"} {
		for _, r := range m.list(path, "ip", "-j", family, "-N", "route", "show", "table", "all") {
			// Numbers, as -N has them: 2 is the kernel's protocol, 1 unicast.
			if protocol := fmt.Sprint(r["protocol"]); protocol != "2" && protocol != "kernel" {
				lines = append(lines, line("route", r, "type", "dst", "gateway", "via", "dev", "table", "metric", "prefsrc", "metrics", "scope"))
			}
		}
		for _, r := range m.list(path, "ip", "-j", family, "rule") {
			lines = append(lines, line("rule", r, "priority", "src", "srclen", "dst", "dstlen", "table"))
		}
	}
	for _, n := range m.list(path, "ip", "-j", "neigh", "show", "nud", "permanent") {
		lines = append(lines, line("neigh", n, "dst", "dev", "lladdr"))
	}
	return lines
}

func (m *machine) traffic(path string) []string {
	m.t.Helper()
	var lines []string
	for _, q := range m.list(path, "tc", "-j", "qdisc") {
		if q["kind"] == "noqueue" {
			continue // what a link has by itself
		}
		lines = append(lines, line("qdisc", q, "kind", "handle", "dev", "parent", "root", "options"))
		if q["kind"] == "ingress" {
			dev := fmt.Sprint(q["dev"])
			for f := range strings.Lines(string(m.run(path, "tc", "filter", "show", "dev", dev, "ingress"))) {
				if strings.Contains(f, "mirred") {
					lines = append(lines, "filter "+dev+" "+strings.TrimSpace(f))
				}
			}
		}
	}
	return lines
}

// nft lists the ruleset, an element a line, without handles and counts.
func (m *machine) nft(path string) []string {
	m.t.Helper()
	var ruleset struct {
		Nftables []map[string]map[string]any
	}
	out := m.run(path, "nft", "-s", "-j", "list", "ruleset")
	if err := json.Unmarshal(out, &ruleset); err != nil {
		m.t.Fatalf("nft: %v in %s", err, out)
	}
	var lines []string
	for _, entry := range ruleset.Nftables {
		for kind, o := range entry {
			if kind == "metainfo" {
				continue
			}
			elems, _ := o["elem"].([]any)
			delete(o, "elem")
			for _, f := range []string{"handle", "index"} {
				delete(o, f)
			}
			lines = append(lines, line("nft "+kind, o, "family", "table", "name", "chain", "type", "map", "hook", "prio", "expr", "comment"))
			for _, e := range elems {
				text, err := json.Marshal(e)
				if err != nil {
					m.t.Fatal(err)
				}
				lines = append(lines, fmt.Sprintf("nft element %v %v %s", o["table"], o["name"], text))
			}
		}
	}
	return lines
}
