// Package hostnet says how the network of this host stands, as far as that can be told without rights: interfaces with their MTU, bridges with
// their ports, and routes. It changes nothing.
package hostnet

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// State is what was read. What this system doesn't tell is empty.
type State struct {
	Links  []Link
	Routes []Route // of the main table, and for IPv6 of all; IPv4 first
}

// Link is an interface.
type Link struct {
	Name  string
	MTU   int
	Down  bool
	Ports int // of a bridge, as far as that can be told
}

// Route is where packets for a network leave.
type Route struct {
	Dst netip.Prefix
	Dev string
}

// Link returns the interface of a name.
func (s State) Link(name string) (Link, bool) {
	for _, l := range s.Links {
		if l.Name == name {
			return l, true
		}
	}
	return Link{}, false
}

// Uplink is the interface of the first default route.
func (s State) Uplink() (Link, bool) {
	for _, r := range s.Routes {
		if r.Dst.Bits() == 0 {
			return s.Link(r.Dev)
		}
	}
	return Link{}, false
}

// Read reads routes and ports from root, the file system whose proc and sys folders are the machine's: os.DirFS("/"). links are its
// interfaces, of net.Interfaces.
func Read(root fs.FS, links []net.Interface) (State, error) {
	s := State{Links: linksOf(root, links)}
	for _, table := range []struct {
		file  string
		parse func(fields []string) (Route, bool, error)
	}{{"proc/net/route", parseRoute4}, {"proc/net/ipv6_route", parseRoute6}} {
		text, err := fs.ReadFile(root, table.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // IPv6 is off, or this is no Linux
		}
		if err != nil {
			return s, fmt.Errorf("read routes: %w", err)
		}
		for line := range bytes.Lines(text) {
			r, ok, err := table.parse(strings.Fields(string(line)))
			if err != nil {
				return s, fmt.Errorf("read routes: %s: %w", table.file, err)
			}
			if ok {
				s.Routes = append(s.Routes, r)
			}
		}
	}
	return s, nil
}

// linksOf adds to what the kernel says of interfaces what it has for bridges below /sys. That is of the namespace in which /sys was mounted, so that
// interfaces are not looked for there.
func linksOf(root fs.FS, list []net.Interface) []Link {
	var links []Link
	for _, i := range list {
		l := Link{Name: i.Name, MTU: i.MTU, Down: i.Flags&net.FlagUp == 0}
		if ports, err := fs.ReadDir(root, path.Join("sys/class/net", i.Name, "brif")); err == nil {
			l.Ports = len(ports)
		}
		links = append(links, l)
	}
	return links
}

// rejects are the flags of a route that leads nowhere, RTF_REJECT of the kernel's route.h.
const rejects = 0x0200

// parseRoute4 reads a line of /proc/net/route: interface, destination, gateway, flags, …, mask in the eighth field. Addresses are 8 hexadecimal
// digits, in the byte order of the machine.
func parseRoute4(f []string) (Route, bool, error) {
	if len(f) < 8 || f[0] == "Iface" {
		return Route{}, false, nil
	}
	dst, err1 := hex.DecodeString(f[1])
	mask, err2 := hex.DecodeString(f[7])
	flags, err3 := strconv.ParseUint(f[3], 16, 32)
	if err := errors.Join(err1, err2, err3); err != nil || len(dst) != 4 || len(mask) != 4 {
		return Route{}, false, fmt.Errorf("route %q: %w", f, errors.Join(err, errForm))
	}
	ones := bits(binary.NativeEndian.AppendUint32(nil, binary.BigEndian.Uint32(mask)))
	addr := binary.NativeEndian.AppendUint32(nil, binary.BigEndian.Uint32(dst))
	p := netip.PrefixFrom(netip.AddrFrom4([4]byte(addr)), ones)
	return Route{Dst: p.Masked(), Dev: f[0]}, flags&rejects == 0, nil
}

// bits counts the ones of a mask.
func bits(mask []byte) int {
	n := 0
	for _, b := range mask {
		for ; b != 0; b <<= 1 {
			n++
		}
	}
	return n
}

// parseRoute6 reads a line of /proc/net/ipv6_route: destination and its length, …, flags in the ninth field, the interface in the
// tenth.
func parseRoute6(f []string) (Route, bool, error) {
	if len(f) < 10 {
		return Route{}, false, nil
	}
	dst, err1 := hex.DecodeString(f[0])
	ones, err2 := strconv.ParseUint(f[1], 16, 8)
	flags, err3 := strconv.ParseUint(f[8], 16, 32)
	if err := errors.Join(err1, err2, err3); err != nil || len(dst) != 16 || ones > 128 {
		return Route{}, false, fmt.Errorf("route %q: %w", f, errors.Join(err, errForm))
	}
	p := netip.PrefixFrom(netip.AddrFrom16([16]byte(dst)), int(ones)).Masked()
	usable := flags&rejects == 0 && f[9] != "lo" && !p.Addr().IsMulticast() && !p.Addr().IsLinkLocalUnicast()
	return Route{Dst: p, Dev: f[9]}, usable, nil
}

var errForm = errors.New("not in the kernel's form")
