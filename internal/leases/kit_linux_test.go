package leases

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// boot is when the machine of the tests was started.
var boot = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// newStore returns a store on a machine that is in the boot "boot-1", and a dataDir.
func newStore(t testing.TB, change func(*Config)) *Store {
	t.Helper()
	cfg := Config{StateDir: t.TempDir(), BootID: "boot-1", BootTime: boot}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rangeOf reads subnet, start-end and gateway: "10.9.0.0/24 10.9.0.2-10.9.0.9 10.9.0.1".
func rangeOf(t testing.TB, text string) netstate.Range {
	t.Helper()
	fields := strings.Fields(text)
	start, end, _ := strings.Cut(fields[1], "-")
	r := netstate.Range{Subnet: netip.MustParsePrefix(fields[0]), Start: netip.MustParseAddr(start), End: netip.MustParseAddr(end)}
	if len(fields) > 2 {
		r.Gateway = netip.MustParseAddr(fields[2])
	}
	return r
}

// poolOf returns a pool of network net in a fresh folder: one text a set, ranges separated by semicolons.
func poolOf(t testing.TB, sets ...string) netstate.Pool {
	t.Helper()
	p := netstate.Pool{Network: "net", Dir: filepath.Join(t.TempDir(), "networks")}
	for _, text := range sets {
		var set []netstate.Range
		for r := range strings.SplitSeq(text, ";") {
			set = append(set, rangeOf(t, r))
		}
		p.Sets = append(p.Sets, set)
	}
	return p
}

func wanting(p netstate.Pool, addrs ...string) netstate.Pool {
	p.Want = nil
	for _, a := range addrs {
		p.Want = append(p.Want, netip.MustParseAddr(a))
	}
	return p
}

func owner(id string) netstate.Owner {
	id, ifName, ok := strings.Cut(id, "/")
	if !ok {
		ifName = "eth0"
	}
	return netstate.Owner{Network: "net", ContainerID: id, IfName: ifName}
}

// add reserves for id and returns the addresses, separated by spaces.
func add(t testing.TB, s *Store, p netstate.Pool, id string) string {
	t.Helper()
	leases, err := s.Reserve(t.Context(), p, owner(id), false)
	if err != nil {
		t.Fatal(err)
	}
	return addresses(leases)
}

func del(t testing.TB, s *Store, p netstate.Pool, id string) {
	t.Helper()
	if err := s.Release(t.Context(), p, owner(id)); err != nil {
		t.Fatal(err)
	}
}

func addresses(leases []netstate.Lease) string {
	var all []string
	for _, l := range leases {
		all = append(all, l.Addr.String())
	}
	return strings.Join(all, " ")
}

// folderOf is the network's folder as name=content, sorted, without lock.
func folderOf(t testing.TB, p netstate.Pool) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(p.Dir, p.Network))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if e.Name() == "lock" {
			continue
		}
		if !e.Type().IsRegular() {
			all = append(all, e.Name()+"="+e.Type().String())
			continue
		}
		data, err := os.ReadFile(filepath.Join(p.Dir, p.Network, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Name()+"="+string(data))
	}
	slices.Sort(all)
	return all
}

// leaseFiles is folderOf without last_reserved_ip.
func leaseFiles(t testing.TB, p netstate.Pool) []string {
	t.Helper()
	return slices.DeleteFunc(folderOf(t, p), func(s string) bool { return strings.HasPrefix(s, "last_reserved_ip.") })
}

// put writes a file of the network's folder as the reference does.
func put(t testing.TB, p netstate.Pool, name, content string) string {
	t.Helper()
	path := filepath.Join(p.Dir, p.Network, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkStore proves what must hold of a folder between operations that have finished: each lease names
// an owner, no owner has two addresses of one set, nothing is half made, and, if the folder is marked,
// the owner links say exactly what the files say.
func checkStore(t testing.TB, p netstate.Pool) {
	t.Helper()
	path := filepath.Join(p.Dir, p.Network)
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return
	}
	s := newStore(t, nil)
	f := &folder{cfg: s.cfg, pool: p, how: forLook, index: -1}
	var err error
	if f.net, err = openDir(path); err != nil {
		t.Fatal(err)
	}
	defer f.net.close()
	if f.meta, err = openDir(filepath.Join(p.Dir, ".cleat", p.Network)); os.IsNotExist(err) {
		return // nothing was done here yet
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.meta.close()
	files, unreadable, err := f.walk(t.Context())
	if err != nil || unreadable != nil {
		t.Fatal(err, unreadable)
	}
	want := make(map[string]string)
	held := make(map[holder][]netip.Addr)
	for _, l := range files {
		if l.holder == (holder{}) {
			t.Errorf("invariant: %s names nobody", l.addr)
			continue
		}
		held[l.holder] = append(held[l.holder], l.addr)
	}
	for h, addrs := range held {
		want[tableKey(h)] = joinAddrs(addrs)
		for _, set := range p.Sets {
			in := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !inSet(set, a) })
			if len(in) > 1 {
				t.Errorf("invariant: %s holds %v of one set", h, in)
			}
		}
	}
	checkIndex(t, f, want)
}

func checkIndex(t testing.TB, f *folder, want map[string]string) {
	t.Helper()
	names, err := f.meta.names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name == "new" || name == "swap" {
			t.Errorf("invariant: %s is left", name)
		}
	}
	f.openIndex()
	defer f.closeIndex()
	if !f.trusted {
		return
	}
	for i := range f.head.pages {
		page, err := f.readPage(i)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(page), "\n") {
			key, addrs, ok := strings.Cut(line, " ")
			if !ok {
				continue
			}
			got, ok := splitAddrs(addrs)
			slices.SortFunc(got, netip.Addr.Compare)
			if !ok || joinAddrs(got) != want[key] {
				t.Errorf("invariant: the index says %q of %s, the files %q", addrs, key, want[key])
			}
			delete(want, key)
		}
	}
	for key, addrs := range want {
		t.Errorf("invariant: %s with %s is missing in a marked index", key, addrs)
	}
}

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }

// noDeadline is the context of a process that is ended from outside.
func noDeadline() context.Context { return context.Background() }
