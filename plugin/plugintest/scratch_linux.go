package plugintest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/planned"
)

// scratch is a world of this machine's kernel: namespaces of its own.
type scratch struct {
	host *netns.Handle
	k    *kernel.Kernel
	pods map[string]*netns.Handle
}

func newScratch(t testing.TB) world {
	t.Helper()
	host, err := netns.New()
	if err != nil {
		sandbox.Need(t, "netns", fmt.Sprintf("no right to make network namespaces (%v): run it as root, or with unshare -Urn", err))
	}
	w := &scratch{host: host, pods: map[string]*netns.Handle{}}
	t.Cleanup(func() {
		for _, pod := range w.pods {
			pod.Close()
		}
		host.Close()
	})
	if w.k, err = kernel.New(kernel.Config{Host: host}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.k.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *scratch) kernel() planned.Kernel      { return planned.Wrap(w.k) }
func (w *scratch) memory() bool                { return false }
func (w *scratch) onHost(f func() error) error { return w.host.Do(f) }

func (w *scratch) newPod() (string, error) {
	pod, err := netns.New()
	if err != nil {
		return "", err
	}
	w.pods[pod.Path()] = pod
	return pod.Path(), nil
}

func (w *scratch) removePod(path string) error {
	pod := w.pods[path]
	delete(w.pods, path)
	return pod.Close()
}

// dump is a namespace's interfaces but lo with their addresses, its IPv4 routes and its permanent neighbour entries. Link-local addresses, which
// come by themselves at some time, are left out.
func (w *scratch) dump(path string) (string, error) {
	ns := w.host
	if path != "" {
		ns = w.pods[path]
	}
	var lines []string
	err := ns.Do(func() error {
		links, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, l := range links {
			if l.Name == "lo" {
				continue
			}
			addrs, err := l.Addrs()
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("link %s mac %s mtu %d up %t", l.Name, l.HardwareAddr, l.MTU, l.Flags&net.FlagUp != 0))
			for _, a := range addrs {
				if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
					lines = append(lines, "addr "+a.String()+" dev "+l.Name)
				}
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("look at namespace %s: %w", ns.Path(), err)
	}
	for _, file := range []string{"route", "arp"} {
		more, err := table(ns, file)
		if err != nil {
			return "", err
		}
		lines = append(lines, more...)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n", nil
}

// table reads a table of the namespace below /proc. Neighbours that the kernel learned (without the flag of a permanent
// entry) are left out.
func table(ns *netns.Handle, file string) ([]string, error) {
	var text []byte
	err := ns.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/" + file)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", file, err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || slices.Contains([]string{"Iface", "IP"}, fields[0]) || file == "arp" && fields[2] != "0x6" {
			continue // empty, the heading, or learned
		}
		lines = append(lines, file+" "+strings.Join(fields, " "))
	}
	return lines, nil
}
