package kernel

import (
	"bytes"
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

// disableIPv6 turns IPv6 off on what is made for the owner and has no use for it, before it comes up. It then says nothing of its own, and
// the kernel keeps no routes for it, all of which it looks through when any link comes up. Where /proc can't be written to, the message
// that turns its address off must do.
func (c *change) disableIPv6(ctx context.Context) error {
	for _, p := range []netstate.Place{netstate.Host, netstate.Pod} {
		var list []*device
		for _, l := range c.state.Links {
			// What an ifb takes in goes on to the link that it came by: nobody is behind it.
			unused := (l.NoIPv6 || l.Kind == kindIFB) && !l.Shared && !c.usesIPv6(l)
			if d := c.devices[l.Ref()]; l.Place == p && unused && d != nil && d.made {
				list = append(list, d)
			}
		}
		if len(list) == 0 {
			continue
		}
		sp, err := c.s.space(p)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		err = sp.do(func() error {
			for _, d := range list {
				d.noIPv6 = writeFile(procSys+"/net/ipv6/conf/"+d.name+"/disable_ipv6", "1") == nil
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// usesIPv6 reports whether the state has an address or a route of IPv6 on l.
func (c *change) usesIPv6(l netstate.Link) bool {
	return slices.ContainsFunc(c.state.Addrs, func(a netstate.Addr) bool {
		return a.Place == l.Place && a.Dev == l.Name && a.Prefix.Addr().Is6()
	}) || slices.ContainsFunc(c.state.Routes, func(r netstate.Route) bool {
		return r.Place == l.Place && r.Dev == l.Name && r.Dst.Addr().Is6()
	})
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
	var b [4096]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return nil, err
	}
	return bytes.Clone(b[:n]), nil
}

func writeSysctl(s netstate.Sysctl) error {
	path, err := sysctlPath(s)
	if err != nil {
		return err
	}
	if err := writeFile(path, s.Value); err != nil {
		return sysctlError(s, "write "+s.Value, err)
	}
	return nil
}

// writeFile writes a short file that is there, by one call.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
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
