package reliability

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// dump is what is on the machine: the host's links, addresses, routes, queues and rules, the pods', and files. What stays by design
// and what changes by itself is left out.
func (m *machine) dump() string {
	m.Helper()
	var text strings.Builder
	text.WriteString(m.dumpOf("host", m.host))
	for _, id := range []string{bystander, subject} {
		if h := m.pods[id]; h != nil {
			text.WriteString(m.dumpOf(id, h))
		}
	}
	return text.String() + strings.Join(m.files(), "\n")
}

func (m *machine) dumpOf(name string, h *netns.Handle) string {
	m.Helper()
	lines, err := sandbox.Look(h, "ip -o -4 addr; ip -4 route show table all; tc qdisc; nft -s list ruleset; grep . /proc/sys/net/core/somaxconn")
	m.must(err)
	return name + ": " + strings.Join(lines, "\n"+name+": ") + "\n"
}

// files lists leases, records, intents, originals and whatever else is in their folders, but for what stays by design.
func (m *machine) files() []string {
	m.Helper()
	var list []string
	entries, err := os.ReadDir(m.Dir)
	m.must(err)
	for _, e := range entries {
		if slices.Contains([]string{"ns", "bin", "conf", "lock"}, e.Name()) {
			continue
		}
		err := filepath.WalkDir(m.path(e.Name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if rel := strings.TrimPrefix(path, m.Dir+"/"); !stays(rel) {
				list = append(list, "file "+rel)
			}
			return nil
		})
		m.must(err)
	}
	return list
}

// stays reports whether a file is one of those that docs/leftovers.md names.
func stays(rel string) bool {
	base := filepath.Base(rel)
	if strings.Contains(rel, "/.cleat/") {
		return base == "index" || base == "boot_id" || strings.HasPrefix(base, "spare-")
	}
	return base == "lock" || strings.HasPrefix(base, "last_reserved_ip.")
}

// locked names the lock files that somebody holds.
func (m *machine) locked() []string {
	m.Helper()
	var held []string
	for _, pattern := range []string{"lock/*", "data/*/lock"} {
		paths, err := filepath.Glob(m.path(pattern))
		m.must(err)
		held = append(held, paths...)
	}
	return slices.DeleteFunc(held, func(path string) bool {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		m.must(err)
		defer unix.Close(fd)
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		return !errors.Is(err, unix.EWOULDBLOCK)
	})
}

// same wants the machine to be as it was, and nobody to hold a lock.
func (m *machine) same(when, clean string) {
	m.Helper()
	if now := m.dump(); now != clean {
		m.Errorf("%s (-before +now):\n%s", when, sandbox.Difference(clean, now))
	}
	if held := m.locked(); len(held) > 0 {
		m.Errorf("%s locks are held: %q", when, held)
	}
}
