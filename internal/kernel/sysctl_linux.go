package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

const procSys = "/proc/sys"

var errNoIPv6 = errors.New("IPv6 is disabled in this kernel, namespace or device")

// setSysctls writes the values of one phase, each place on one thread inside it. A value that
// is so already is not written: another program may watch it, and /proc may be read-only.
func (c *change) setSysctls(ctx context.Context, afterUp bool) error {
	for _, p := range []netstate.Place{netstate.Host, netstate.Pod} {
		var list []netstate.Sysctl
		for _, s := range c.state.Sysctls {
			if s.Place == p && s.AfterUp == afterUp {
				list = append(list, s)
			}
		}
		if len(list) == 0 {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := c.setSysctlsOf(p, list); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) setSysctlsOf(p netstate.Place, list []netstate.Sysctl) error {
	sp, err := c.s.space(p)
	if err != nil {
		return err
	}
	// before holds what was overwritten, in order.
	var before []netstate.Sysctl
	err = sp.do(func() error {
		for _, s := range list {
			old, err := readSysctl(s)
			if s.Optional && errors.Is(err, netstate.ErrNotExist) {
				continue
			}
			// One that orders something, as net/ipv4/route/flush does, can only be written.
			order := errors.Is(err, fs.ErrPermission)
			if err != nil && !order {
				return err
			}
			if !order && equalValue(old, s.Value) {
				continue
			}
			if err := writeSysctl(s); err != nil {
				return err
			}
			if !s.Shared && !order {
				s.Value = old
				before = append(before, s)
			}
		}
		return nil
	})
	if len(before) > 0 {
		c.undo.add(func(context.Context) error { return sp.do(func() error { return restoreSysctls(before) }) })
	}
	return err
}

// restoreSysctls writes values back, the last first. A value whose interface is gone needs none.
func restoreSysctls(before []netstate.Sysctl) error {
	var errs []error
	for _, s := range slices.Backward(before) {
		if err := writeSysctl(s); err != nil && !errors.Is(err, netstate.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// disablesIPv6 reports whether s asks for what a kernel without IPv6 gives anyway.
func disablesIPv6(s netstate.Sysctl) bool {
	return strings.HasPrefix(s.Name, "net/ipv6/") && strings.HasSuffix(s.Name, "/disable_ipv6") && s.Value == "1"
}

// readSysctl reads a value in the namespace of the calling thread, without white space around it. One that is
// not there is netstate.ErrNotExist.
func readSysctl(s netstate.Sysctl) (string, error) {
	path, err := sysctlPath(s)
	if err != nil {
		return "", err
	}
	b, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && disablesIPv6(s) && !haveIPv6() {
		return s.Value, nil
	}
	if err != nil {
		return "", sysctlError(s, "read", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// readFile reads a short file. os.ReadFile does more for a file than its few bytes here are worth: it takes
// five times as long.
func readFile(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// What a sysctl holds is given at once, by one read; the longest are lists of ports.
	b := make([]byte, 4096)
	n, err := unix.Read(fd, b)
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

func writeSysctl(s netstate.Sysctl) error {
	path, err := sysctlPath(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return sysctlError(s, "write", err)
	}
	_, err = f.WriteString(s.Value)
	if err := errors.Join(err, f.Close()); err != nil {
		return sysctlError(s, "write "+s.Value, err)
	}
	return nil
}

// sysctlPath refuses names that lead out of /proc/sys.
func sysctlPath(s netstate.Sysctl) (string, error) {
	if !filepath.IsLocal(s.Name) {
		return "", about(s, fmt.Errorf("name is not below %s", procSys))
	}
	return filepath.Join(procSys, s.Name), nil
}

func sysctlError(s netstate.Sysctl, step string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err // the path says no more than the object does
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return about(s, fmt.Errorf("%s: %w", step, err))
	}
	if strings.HasPrefix(s.Name, "net/ipv6/") && !haveIPv6() {
		return about(s, fmt.Errorf("%w: %w", errNoIPv6, netstate.ErrNotExist))
	}
	return about(s, netstate.ErrNotExist)
}

func haveIPv6() bool {
	_, err := os.Stat(procSys + "/net/ipv6/conf")
	return err == nil
}

// equalValue compares values: the kernel separates fields by tabs.
func equalValue(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}
