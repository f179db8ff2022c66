//go:build amd64 || arm64

package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
)

// hostDump is what an attachment could leave on the host: links, addresses, routes, all of nftables, leases, records.
func (w *world) hostDump() (string, error) {
	kernel, err := dumpOf(w.host)
	if err != nil {
		return "", err
	}
	rules, err := w.rules()
	if err != nil {
		return "", err
	}
	files, err := w.files()
	if err != nil {
		return "", err
	}
	return kernel + rules + files, nil
}

// dumpOf lists the links of a namespace with their addresses, and the routes. What changes by itself is left out.
func dumpOf(ns *netns.Handle) (string, error) {
	var lines []string
	err := ns.Do(func() error {
		links, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, l := range links {
			addrs, err := l.Addrs()
			if err != nil {
				return err
			}
			var line strings.Builder
			line.WriteString(fmt.Sprintf("link %s mtu %d up %t", l.Name, l.MTU, l.Flags&net.FlagUp != 0))
			for _, a := range addrs {
				if !strings.HasPrefix(a.String(), "fe80:") {
					line.WriteString(" " + a.String())
				}
			}
			lines = append(lines, line.String())
		}
		routes, err := os.ReadFile("/proc/thread-self/net/route")
		if err != nil {
			return err
		}
		for i, line := range strings.Split(strings.TrimSpace(string(routes)), "\n") {
			if f := strings.Fields(line); i > 0 && len(f) > 7 {
				lines = append(lines, "route "+strings.Join(append(f[:3:3], f[7]), " "))
			}
		}
		return nil
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n", err
}

// rules lists nftables, sorted: each element of a set is a line.
func (w *world) rules() (string, error) {
	var out []byte
	err := w.host.Do(func() error {
		var err error
		out, err = exec.Command("nft", "-s", "list", "ruleset").Output()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list nftables: %w", err)
	}
	counters := regexp.MustCompile(`counter packets \d+ bytes \d+`)
	text := strings.ReplaceAll(counters.ReplaceAllString(string(out), "counter"), "elements = {", "\n")
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.Trim(line, " \t\n,}{"); line != "" {
			lines = append(lines, "nft "+line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n", nil
}

// files lists leases, records, intents and whatever else is in their folders, but for what stays by design: locks, the last address, the
// index with the boot id, and spare lease files.
func (w *world) files() (string, error) {
	var lines []string
	for _, root := range []string{w.path("data"), w.stateDir()} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(filepath.Dir(root), path)
			if err != nil {
				return err
			}
			if !stays(rel) {
				lines = append(lines, "file "+rel)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n", nil
}

func stays(rel string) bool {
	switch filepath.Dir(rel) {
	case "state/cleat/lock":
		return true
	case "data/" + network:
		return filepath.Base(rel) == "lock" || strings.HasPrefix(filepath.Base(rel), "last_reserved_ip.")
	case "data/.cleat/" + network:
		return slices.Contains([]string{"index", "boot_id"}, filepath.Base(rel)) || strings.HasPrefix(filepath.Base(rel), "spare-")
	}
	return false
}

// locked names the lock files that somebody holds.
func (w *world) locked() ([]string, error) {
	held, err := filepath.Glob("/run/cleat/*.lock")
	if err != nil {
		return nil, err
	}
	held = append(held, w.path("data", network, "lock"))
	return slices.DeleteFunc(held, func(path string) bool {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return true // nobody made it
		}
		defer unix.Close(fd)
		return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil
	}), nil
}

// reaches reports whether the host gets an answer from a container: that nobody listens there.
func (w *world) reaches(addr [4]byte) error {
	return w.host.Do(func() error {
		err := knock(addr)
		for errors.Is(err, unix.EINTR) { // a call with a timeout is not begun again after a signal
			err = knock(addr)
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("the bystander does not answer: %w", err)
		}
		return nil
	})
}

func knock(addr [4]byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(int64(2 * time.Second)) // bounds connect, too
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait); err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrInet4{Port: 9, Addr: addr})
}

// difference lists the lines that one text has oftener than the other.
func difference(before, after string) string {
	count := map[string]int{}
	for line := range strings.SplitSeq(before, "\n") {
		count[line]--
	}
	for line := range strings.SplitSeq(after, "\n") {
		count[line]++
	}
	var diff []string
	for line, n := range count {
		switch {
		case n < 0:
			diff = append(diff, "- "+line)
		case n > 0:
			diff = append(diff, "+ "+line)
		}
	}
	slices.Sort(diff)
	return strings.Join(diff, "\n")
}
