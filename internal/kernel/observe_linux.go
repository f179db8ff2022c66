package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/netstate"
)

// Observe reads what q asks for; what does not exist is left out. The session remembers it for Apply.
func (s *Session) Observe(ctx context.Context, q netstate.Query) (netstate.Facts, error) {
	if err := context.Cause(ctx); err != nil {
		return netstate.Facts{}, err
	}
	w := s.begin()
	defer w.end()
	var f netstate.Facts
	for _, ref := range q.Links {
		if ref.Place == netstate.Pod && s.pod == nil {
			continue
		}
		delete(s.seen, ref)
		d, err := w.observe(ctx, ref)
		if errors.Is(err, netstate.ErrNotExist) {
			continue
		}
		if err != nil {
			return f, err
		}
		l, err := w.describe(ctx, d)
		if err != nil {
			return f, err
		}
		f.Links = append(f.Links, l)
		f.Addrs = append(f.Addrs, d.addrs...)
		if q.Peers && ref.Place == netstate.Pod && d.kind == kindVeth {
			if err := w.observePeer(ctx, d, &f); err != nil {
				return f, err
			}
		}
	}
	if err := errors.Join(w.observeRouting(ctx, q.Routing, &f), s.observeValues(q, &f)); err != nil {
		return f, err
	}
	if q.NFTables {
		has, err := s.k.hasNFTables(ctx)
		if err != nil {
			return f, err
		}
		f.NoNFTables = !has
	}
	if q.Firewalld {
		var err error
		if f.Firewalld, err = s.k.zones.Answers(ctx); err != nil {
			return f, fmt.Errorf("look for firewalld: %w", err)
		}
	}
	if q.Forward {
		for _, family := range iptFamilies() {
			there, err := s.k.iptExists(ctx, family, "filter", []string{"FORWARD"})
			if err != nil {
				return f, err
			}
			if there {
				f.Forward = append(f.Forward, family)
			}
		}
	}
	var err error
	if f.Elements, err = s.k.observeElements(ctx, q); err != nil {
		return f, err
	}
	if q.PodID && s.pod != nil {
		if f.PodID, err = s.podID(); err != nil {
			return f, err
		}
	}
	if q.WantsUplink(f) {
		if f.Uplink, err = w.uplink(ctx); err != nil {
			return f, err
		}
	}
	return f, nil
}

// podID is what netstate.Facts.PodID says of the pod's namespace.
func (s *Session) podID() (string, error) {
	cookie, err := s.pod.cookie()
	if err != nil || cookie == 0 {
		return "", err
	}
	return strconv.FormatUint(cookie, 10), nil
}

// observe looks a link up with its addresses.
func (w *work) observe(ctx context.Context, ref netstate.Ref) (*device, error) {
	d, err := w.lookup(ctx, ref)
	if err != nil {
		return nil, err
	}
	c, err := w.conn(ref.Place)
	if err != nil {
		return nil, err
	}
	list, err := c.addrs(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		d.addrs = append(d.addrs, a.addr(d))
	}
	w.s.seen[ref] = d
	return d, nil
}

// observeValues reads sysctls and files.
func (s *Session) observeValues(q netstate.Query, f *netstate.Facts) error {
	for _, p := range []netstate.Place{netstate.Host, netstate.Pod} {
		list := slices.DeleteFunc(slices.Clone(q.Sysctls), func(v netstate.Sysctl) bool { return v.Place != p })
		if len(list) == 0 || p == netstate.Pod && s.pod == nil {
			continue
		}
		sp, err := s.space(p)
		if err != nil {
			return err
		}
		err = sp.do(func() error {
			for _, v := range list {
				value, err := readSysctl(v)
				if errors.Is(err, netstate.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
					continue // it comes with an interface, or can only be written
				}
				if err != nil {
					return err
				}
				v.Value = value
				f.Sysctls = append(f.Sysctls, v)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, path := range q.Files {
		text, err := readAsked(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if f.Files == nil {
			f.Files = map[string]string{}
		}
		f.Files[path] = string(text)
	}
	return nil
}

// maxAsked is the size of the largest file that a plugin is shown, in bytes.
const maxAsked = 1 << 20

// readAsked reads a file that a plugin asks for, or the one that a link at path leads to. Nothing that path may name is waited for.
func readAsked(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	if ownfile.OpenToAll(info) {
		return nil, fmt.Errorf("read %s: everybody can write to it: chmod o-w it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAsked+1))
	if err == nil && len(text) > maxAsked {
		err = fmt.Errorf("read %s: more than %d bytes", path, maxAsked)
	}
	return text, err
}

// observePeer adds the other end of d, a veth in the pod whose link is the last of f, if it is on the host.
func (w *work) observePeer(ctx context.Context, d *device, f *netstate.Facts) error {
	c, err := w.conn(netstate.Host)
	if err != nil {
		return err
	}
	peer, err := c.linkByIndex(ctx, netstate.Host, d.peer)
	if errors.Is(err, netstate.ErrNotExist) {
		return nil
	}
	// An index counts in its namespace: another link of the host may have it.
	if err != nil || peer.kind != kindVeth || peer.peer != d.index {
		return err
	}
	if inPod, err := w.peerInPod(ctx, peer); err != nil || !inPod {
		return err
	}
	end, err := w.describe(ctx, peer)
	if err != nil {
		return err
	}
	l := &f.Links[len(f.Links)-1]
	l.Peer, l.PeerPlace = end.Name, netstate.Host
	f.Links = append(f.Links, end)
	return nil
}

// describe gives the link as netstate does, with its master's name.
func (w *work) describe(ctx context.Context, d *device) (netstate.Link, error) {
	l := d.link()
	l.AllMulti, l.TxQLen = netstate.SwitchOf(d.allMulti), cmp.Or(d.txQLen, netstate.NoQueue)
	if d.master == 0 {
		return l, nil
	}
	for _, other := range w.devices {
		if other.place == d.place && other.index == d.master {
			l.Master = other.name
			return l, nil
		}
	}
	c, err := w.conn(d.place)
	if err != nil {
		return l, err
	}
	m, err := c.linkByIndex(ctx, d.place, d.master)
	if errors.Is(err, netstate.ErrNotExist) {
		return l, nil // it went while we asked
	}
	if err != nil {
		return l, err
	}
	w.devices[m.ref()] = m
	l.Master = m.name
	return l, nil
}

// uplink finds the host's link of the default route with the lowest priority, of IPv4 if it has one, else of IPv6.
func (w *work) uplink(ctx context.Context) (netstate.Link, error) {
	c, err := w.conn(netstate.Host)
	if err != nil {
		return netstate.Link{}, err
	}
	for _, f := range []uint8{unix.AF_INET, unix.AF_INET6} {
		list, err := c.routes(ctx, routeQuery{place: netstate.Host, family: f})
		if err != nil {
			return netstate.Link{}, fmt.Errorf("find uplink: %w", err)
		}
		best := seenRoute{}
		for _, r := range list {
			if r.Dst.Bits() == 0 && r.index != 0 && (best.index == 0 || r.Priority < best.Priority) {
				best = r
			}
		}
		if best.index == 0 {
			continue
		}
		d, err := c.linkByIndex(ctx, netstate.Host, best.index)
		if errors.Is(err, netstate.ErrNotExist) {
			continue
		}
		if err != nil {
			return netstate.Link{}, fmt.Errorf("find uplink: %w", err)
		}
		return w.describe(ctx, d)
	}
	return netstate.Link{}, nil
}
