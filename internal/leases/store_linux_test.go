package leases

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/filelock"
	"github.com/cleat-cni/cleat/netstate"
)

const (
	tiny = "10.9.0.0/29 10.9.0.1-10.9.0.6 10.9.0.1" // five addresses, .2 to .6
	v6   = "fd00::/64 fd00::1-fd00::ffff:ffff:ffff:ffff fd00::1"
)

func TestLayout(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, tiny, v6)
	if got := add(t, s, p, "c1"); got != "10.9.0.2 fd00::2" {
		t.Error(got)
	}
	want := []string{"10.9.0.2=c1\r\neth0", "fd00::2=c1\r\neth0", "last_reserved_ip.0=10.9.0.2", "last_reserved_ip.1=fd00::2"}
	if diff := cmp.Diff(want, folderOf(t, p)); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
	for name, perm := range map[string]os.FileMode{
		"net": 0o755, "net/10.9.0.2": 0o600, "net/last_reserved_ip.0": 0o600, ".cleat/net": 0o700,
	} {
		st, err := os.Lstat(filepath.Join(p.Dir, name))
		if err != nil || st.Mode().Perm() != perm {
			t.Errorf("%s: mode %v, error %v, want %v", name, st.Mode(), err, perm)
		}
	}
	checkStore(t, p)
	held, err := s.Held(t.Context(), p, owner("c1"))
	if err != nil || addresses(held) != "10.9.0.2 fd00::2" {
		t.Errorf("held %v, error %v", held, err)
	}
	wantLease := netstate.Lease{Network: "net", Addr: netip.MustParseAddr("10.9.0.2"), Store: p.Dir, Owner: owner("c1")}
	if diff := cmp.Diff(wantLease, held[0], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("lease (-want +got):\n%s", diff)
	}
	del(t, s, p, "c1")
	del(t, s, p, "c1")
	if got := leaseFiles(t, p); len(got) > 0 {
		t.Errorf("left after DEL: %q", got)
	}
	checkStore(t, p)
}

func TestRoundRobin(t *testing.T) {
	for _, test := range []struct {
		name string
		set  string
		last string
		want string // what ADDs get until it is used up
	}{
		{"from-start", tiny, "", "10.9.0.2 10.9.0.3 10.9.0.4 10.9.0.5 10.9.0.6"},
		{"after-last", tiny, "10.9.0.4", "10.9.0.5 10.9.0.6 10.9.0.2 10.9.0.3 10.9.0.4"},
		{"after-end", tiny, "10.9.0.6", "10.9.0.2 10.9.0.3 10.9.0.4 10.9.0.5 10.9.0.6"},
		{"last-elsewhere", tiny, "10.8.0.4", "10.9.0.2 10.9.0.3 10.9.0.4 10.9.0.5 10.9.0.6"},
		{"last-nonsense", tiny, "\x00\x00", "10.9.0.2 10.9.0.3 10.9.0.4 10.9.0.5 10.9.0.6"},
		{"edges-named", "10.9.0.0/29 10.9.0.0-10.9.0.7 10.9.0.3", "", "10.9.0.1 10.9.0.2 10.9.0.4 10.9.0.5 10.9.0.6"},
		{"two-ranges", "10.9.0.0/30 10.9.0.1-10.9.0.2 10.9.0.1;10.7.0.0/30 10.7.0.1-10.7.0.2 10.7.0.2", "", "10.9.0.2 10.7.0.1"},
		{"two-ranges-from-second", "10.9.0.0/30 10.9.0.1-10.9.0.2 10.9.0.1;10.7.0.0/29 10.7.0.1-10.7.0.3 10.7.0.2", "10.7.0.1", "10.7.0.3 10.9.0.2 10.7.0.1"},
		{"gateway-of-other-range", "10.9.0.0/24 10.9.0.2-10.9.0.3 10.9.0.9;10.9.0.0/24 10.9.0.8-10.9.0.10 10.9.0.1", "", "10.9.0.2 10.9.0.3 10.9.0.8 10.9.0.10"},
		{"inner-edges", "10.9.0.0/23 10.9.0.255-10.9.1.0", "", "10.9.0.255 10.9.1.0"},
		{"point-to-point", "10.9.0.0/31 10.9.0.0-10.9.0.1", "", "10.9.0.0 10.9.0.1"},
		{"end-of-space", "255.255.255.252/30 255.255.255.253-255.255.255.255", "", "255.255.255.253 255.255.255.254"},
		{"end-of-space-6", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126 ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "",
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, p := newStore(t, nil), poolOf(t, test.set)
			if test.last != "" {
				put(t, p, lastName(0), test.last)
			}
			var got []string
			for i := 0; ; i++ {
				peeked, peekErr := s.Reserve(t.Context(), p, netstate.Owner{Network: "net"}, true)
				leases, err := s.Reserve(t.Context(), p, owner("c"+string(rune('a'+i))), false)
				if errors.Is(err, netstate.ErrExhausted) && errors.Is(peekErr, netstate.ErrExhausted) {
					break
				}
				if err != nil || peekErr != nil {
					t.Fatal(err, peekErr)
				}
				if addresses(peeked) != addresses(leases) {
					t.Errorf("peek %s, got %s", addresses(peeked), addresses(leases))
				}
				got = append(got, addresses(leases))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkStore(t, p)
		})
	}
}

func TestReserveErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		pool netstate.Pool
		id   string
		is   error
		code cni.Code
		says []string
	}{
		{name: "held", pool: poolOf(t, tiny, v6), id: "c1", is: netstate.ErrExist, says: []string{"c1/eth0", "10.9.0.2", "/net/10.9.0.2", "since 20"}},
		{name: "held-and-wanted-other", pool: wanting(poolOf(t, tiny, v6), "10.9.0.5"), id: "c1", is: netstate.ErrExist},
		{name: "in-use", pool: wanting(poolOf(t, tiny, v6), "10.9.0.2"), id: "c9", is: netstate.ErrInUse, says: []string{"c1/eth0", "/net/10.9.0.2"}},
		{name: "second-in-use", pool: wanting(poolOf(t, tiny, v6), "fd00::2"), id: "c9", is: netstate.ErrInUse},
		{name: "wanted-gateway", pool: wanting(poolOf(t, tiny, v6), "10.9.0.1"), id: "c9", code: cni.CodeInvalidConfig, says: []string{"gateway"}},
		{name: "wanted-broadcast", pool: wanting(poolOf(t, "10.9.0.0/29 10.9.0.0-10.9.0.7 10.9.0.1", v6), "10.9.0.7"), id: "c9", code: cni.CodeInvalidConfig, says: []string{"broadcast"}},
		{name: "wanted-elsewhere", pool: wanting(poolOf(t, tiny, v6), "10.8.0.2"), id: "c9", code: cni.CodeInvalidConfig, says: []string{"in no range"}},
		{name: "wanted-two-of-a-set", pool: wanting(poolOf(t, tiny, v6), "10.9.0.4", "10.9.0.5"), id: "c9", code: cni.CodeInvalidConfig, says: []string{"another"}},
		{name: "exhausted", pool: poolOf(t, "10.9.0.0/29 10.9.0.1-10.9.0.3 10.9.0.1", v6), id: "c9", is: netstate.ErrExhausted, says: []string{"10.9.0.1-10.9.0.3", "10.9.0.2 by c1/eth0", "10.9.0.3 by c2/eth0"}},
		{name: "second-exhausted", pool: poolOf(t, "10.9.0.0/24 10.9.0.2-10.9.0.20", "fd00::/64 fd00::2-fd00::3"), id: "c9", is: netstate.ErrExhausted, says: []string{"fd00::2-fd00::3"}},
		{name: "no-container", pool: poolOf(t, tiny, v6), id: "", says: []string{"reserve"}},
		{name: "id-of-two-lines", pool: poolOf(t, tiny, v6), id: "a\nb", says: []string{"reserve"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, p := newStore(t, nil), test.pool
			for i, id := range []string{"c1", "c2"} {
				put(t, p, []string{"10.9.0.2", "10.9.0.3"}[i], id+"\r\neth0")
				put(t, p, []string{"fd00::2", "fd00::3"}[i], id+"\r\neth0")
			}
			before := folderOf(t, p)
			_, err := s.Reserve(t.Context(), p, owner(test.id), false)
			if err == nil || (test.is != nil && !errors.Is(err, test.is)) || (test.code != 0 && cni.CodeOf(err) != test.code) {
				t.Fatalf("error %v, want %v, code %v", err, test.is, test.code)
			}
			for _, want := range test.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if diff := cmp.Diff(before, folderOf(t, p)); diff != "" {
				t.Errorf("the folder was changed (-want +got):\n%s", diff)
			}
			checkStore(t, p)
		})
	}
}

func TestWanted(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, tiny, v6)
	if got := add(t, s, wanting(p, "fd00::77", "10.9.0.5"), "c1"); got != "10.9.0.5 fd00::77" {
		t.Error(got)
	}
	if got := add(t, s, wanting(p, "10.9.0.4"), "c2"); got != "10.9.0.4 fd00::78" {
		t.Error(got)
	}
	if got := add(t, s, p, "c2/eth1"); got != "10.9.0.5" && got != "10.9.0.6 fd00::79" {
		t.Error(got)
	}
	checkStore(t, p)
}

func TestInterfacesOfAContainer(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, tiny)
	add(t, s, p, "c1/eth0")
	add(t, s, p, "c1/eth1")
	del(t, s, p, "c1/eth0")
	if diff := cmp.Diff([]string{"10.9.0.3=c1\r\neth1"}, leaseFiles(t, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkStore(t, p)
}

func TestLegacyFiles(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, tiny)
	put(t, p, "10.9.0.2", "c1")
	put(t, p, "10.9.0.3", " c2 \n")
	put(t, p, "10.9.0.4", "c3\r\neth0\n")
	if _, err := s.Reserve(t.Context(), p, owner("c1"), false); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("error %v", err)
	}
	held, err := s.Held(t.Context(), p, owner("c2"))
	if err != nil || addresses(held) != "10.9.0.3" {
		t.Errorf("held %v, error %v", held, err)
	}
	for _, id := range []string{"c1", "c2", "c3"} {
		del(t, s, p, id)
	}
	if got := leaseFiles(t, p); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	checkStore(t, p)
}

func TestB003FilesThatNameNobody(t *testing.T) {
	garbage := map[string]string{
		"empty": "", "spaces": " \r\n ", "zeros": strings.Repeat("\x00", 40), "not-text": "\xff\xfe", "long": strings.Repeat("x", maxLease+1), "lines": "a\r\nb\r\nc",
	}
	for name, content := range garbage {
		t.Run(name, func(t *testing.T) {
			s, p := newStore(t, nil), poolOf(t, tiny)
			for _, a := range []string{"10.9.0.2", "10.9.0.3", "10.9.0.4", "10.9.0.5", "10.9.0.6"} {
				put(t, p, a, content)
			}
			del(t, s, p, "nobody")
			if got := add(t, s, p, "c1"); got != "10.9.0.2" {
				t.Error(got)
			}
			if got := add(t, s, wanting(p, "10.9.0.5"), "c2"); got != "10.9.0.5" {
				t.Error(got)
			}
			freed, err := s.Collect(t.Context(), p, []netstate.Owner{owner("c1"), owner("c2")}, false)
			if err != nil || addresses(freed) != "10.9.0.3 10.9.0.4 10.9.0.6" {
				t.Errorf("collected %v, error %v", freed, err)
			}
			checkStore(t, p)
		})
	}
}

// TestNearlyFull proves that a full pool is not tried address by address, that a gap is found, and that files that name nobody
// are taken when nothing else is left.
func TestNearlyFull(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, "10.9.0.0/22 10.9.0.1-10.9.3.254 10.9.0.1")
	a := p.Sets[0][0].Start
	for a != p.Sets[0][0].End {
		a = a.Next()
		switch a.String() {
		case "10.9.2.7":
		case "10.9.1.200":
			put(t, p, a.String(), "")
		default:
			put(t, p, a.String(), "c"+a.String()+"\r\neth0")
		}
	}
	for i, want := range []string{"10.9.2.7", "10.9.1.200"} {
		peeked, err := s.Reserve(t.Context(), p, owner("new"), true)
		if err != nil || addresses(peeked) != want {
			t.Errorf("%d: peeked %v, error %v, want %s", i, peeked, err, want)
		}
		if got := add(t, s, p, []string{"x", "y"}[i]); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	_, err := s.Reserve(t.Context(), p, owner("z"), false)
	if !errors.Is(err, netstate.ErrExhausted) || !strings.Contains(err.Error(), "and 1018 more") {
		t.Error(err)
	}
	checkStore(t, p)
}

func TestStrangeThings(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, "10.9.0.0/24 10.9.0.2-10.9.0.9")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte("c1\r\neth0"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, p, "10.9.0.4", "c1\r\neth0")
	dir := filepath.Join(p.Dir, p.Network)
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "10.9.0.2"), 0o755),
		os.Symlink(elsewhere, filepath.Join(dir, "10.9.0.3")),
		mkfifo(filepath.Join(dir, "10.9.0.5")),
		os.Symlink(filepath.Join(dir, "new"), filepath.Join(dir, lastName(0))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, p, "README", "c1\r\neth0")
	put(t, p, "FD00::1", "c1\r\neth0")
	if got := add(t, s, p, "c2"); got != "10.9.0.6" {
		t.Error(got)
	}
	_, err := s.Reserve(t.Context(), wanting(p, "10.9.0.3"), owner("c3"), false)
	if !errors.Is(err, netstate.ErrInUse) || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	del(t, s, p, "c1")
	if _, err := s.Collect(t.Context(), p, nil, false); err != nil {
		t.Error(err)
	}
	want := []string{"10.9.0.2=d---------", "10.9.0.3=L---------", "10.9.0.5=p---------", "FD00::1=c1\r\neth0", "README=c1\r\neth0", "last_reserved_ip.0=L---------"}
	if diff := cmp.Diff(want, folderOf(t, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if data, err := os.ReadFile(elsewhere); err != nil || string(data) != "c1\r\neth0" {
		t.Errorf("the target of a link was touched: %q, %v", data, err)
	}
}

// TestRefusedFolders proves that nothing outside of dataDir is reached.
func TestRefusedFolders(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(t *testing.T, p *netstate.Pool) error
		says string
		del  bool // DEL succeeds, with a warning: nothing can be held there
	}{
		{"network-is-a-link", func(t *testing.T, p *netstate.Pool) error {
			return errors.Join(os.MkdirAll(p.Dir, 0o755), os.Symlink(t.TempDir(), filepath.Join(p.Dir, p.Network)))
		}, "symbolic link", false},
		{"network-is-a-file", func(_ *testing.T, p *netstate.Pool) error {
			return errors.Join(os.MkdirAll(p.Dir, 0o755), os.WriteFile(filepath.Join(p.Dir, p.Network), nil, 0o600))
		}, "not a folder", true},
		{"folder-leads-nowhere", func(_ *testing.T, p *netstate.Pool) error {
			return errors.Join(os.MkdirAll(filepath.Dir(p.Dir), 0o755), os.Symlink("nowhere", p.Dir))
		}, "a symbolic link that leads nowhere", true},
		{"lock-is-a-link", func(_ *testing.T, p *netstate.Pool) error {
			dir := filepath.Join(p.Dir, p.Network)
			return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("/etc/made-by-a-test", filepath.Join(dir, "lock")))
		}, "not a regular file", false},
		{"name-with-slash", func(_ *testing.T, p *netstate.Pool) error { p.Network = "../net"; return nil }, "not a file name", false},
		{"name-of-our-own-folder", func(_ *testing.T, p *netstate.Pool) error { p.Network = ".cleat"; return nil }, "not a file name", false},
		{"relative-folder", func(_ *testing.T, p *netstate.Pool) error { p.Dir = "networks"; return nil }, "absolute", false},
		{"folder-is-a-file", func(_ *testing.T, p *netstate.Pool) error { return os.WriteFile(p.Dir, nil, 0o600) }, "not a folder", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			s, p := newStore(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }), poolOf(t, tiny)
			if err := test.make(t, &p); err != nil {
				t.Fatal(err)
			}
			_, err := s.Reserve(t.Context(), p, owner("c1"), false)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %q", err, test.says)
			}
			if err := s.Release(t.Context(), p, owner("c1")); (err == nil) != test.del {
				t.Errorf("DEL: error %v", err)
			}
			if _, err := s.Collect(t.Context(), p, nil, false); (err == nil) != test.del {
				t.Errorf("GC: error %v", err)
			}
			if test.says == "not a folder" && !strings.Contains(log.String(), "no addresses can be kept") {
				t.Errorf("no warning: %q", log.String())
			}
		})
	}
}

func TestNoFolder(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, tiny)
	del(t, s, p, "c1")
	if held, err := s.Held(t.Context(), p, owner("c1")); err != nil || held != nil {
		t.Errorf("held %v, error %v", held, err)
	}
	if freed, err := s.Collect(t.Context(), p, nil, false); err != nil || freed != nil {
		t.Errorf("freed %v, error %v", freed, err)
	}
	if leases, err := s.Reserve(t.Context(), p, owner("c1"), true); err != nil || addresses(leases) != "10.9.0.2" {
		t.Errorf("peeked %v, error %v", leases, err)
	}
	if _, err := os.Lstat(p.Dir); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", p.Dir, err)
	}
}

func TestB076Collect(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, "10.9.0.0/24 10.9.0.2-10.9.0.99")
	put(t, p, "10.9.0.2", "live\r\neth0")
	put(t, p, "10.9.0.3", "live\r\neth1")
	put(t, p, "10.9.0.4", "dead\r\neth0")
	put(t, p, "10.9.0.5", "live")
	put(t, p, "10.9.0.6", "dead")
	put(t, p, "10.9.0.7", "")
	put(t, p, lastName(0), "10.9.0.7")
	put(t, p, "lock", "")
	put(t, p, "notes", "dead\r\neth0")
	valid := []netstate.Owner{owner("live/eth0"), {}}
	before := folderOf(t, p)
	const want = "10.9.0.3 10.9.0.4 10.9.0.6 10.9.0.7"
	freed, err := s.Collect(t.Context(), p, valid, true)
	if err != nil || addresses(freed) != want {
		t.Errorf("dry run: %v, error %v", freed, err)
	}
	if diff := cmp.Diff(before, folderOf(t, p)); diff != "" {
		t.Errorf("the dry run changed (-want +got):\n%s", diff)
	}
	freed, err = s.Collect(t.Context(), p, valid, false)
	if err != nil || addresses(freed) != want {
		t.Errorf("freed %v, error %v", freed, err)
	}
	if freed[0].Owner != owner("live/eth1") || freed[2].Owner != (netstate.Owner{Network: "net", ContainerID: "dead"}) {
		t.Errorf("owners %v", freed)
	}
	after := []string{"10.9.0.2=live\r\neth0", "10.9.0.5=live", "last_reserved_ip.0=10.9.0.7", "notes=dead\r\neth0"}
	if diff := cmp.Diff(after, folderOf(t, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkStore(t, p)
	if _, err := s.Collect(t.Context(), p, nil, false); err != nil {
		t.Error(err)
	}
	if got := leaseFiles(t, p); len(got) != 1 {
		t.Errorf("left %q", got)
	}
}

// TestReferenceBetween proves that what the reference writes and removes between two operations is seen, also within one tick
// of the file system's clock.
func TestReferenceBetween(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, "10.9.0.0/16 10.9.0.2-10.9.255.254")
	for i := range 50 {
		id := "c" + strings.Repeat("x", i)
		add(t, s, p, id)
		file := put(t, p, "10.9.77.7", "ref\r\neth0")
		if _, err := s.Reserve(t.Context(), p, owner("ref"), false); !errors.Is(err, netstate.ErrExist) {
			t.Fatalf("round %d: error %v", i, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if held, err := s.Held(t.Context(), p, owner("ref")); err != nil || held != nil {
			t.Fatalf("round %d: held %v, error %v", i, held, err)
		}
		checkStore(t, p)
	}
	// In place: the folder's times say nothing, the file does.
	if err := os.Truncate(filepath.Join(p.Dir, "net", "10.9.0.2"), 0); err != nil {
		t.Fatal(err)
	}
	if held, err := s.Held(t.Context(), p, owner("c")); err != nil || held != nil {
		t.Errorf("held %v, error %v", held, err)
	}
}

// TestSpareFiles proves that the file of a lease that ended is used again only if nobody else can see it.
func TestSpareFiles(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, "10.9.0.0/16 10.9.0.2-10.9.255.254", v6)
	add(t, s, p, "c1")
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.Link(filepath.Join(p.Dir, "net", "10.9.0.2"), backup); err != nil {
		t.Fatal(err)
	}
	del(t, s, p, "c1")
	add(t, s, p, "a-longer-name")
	add(t, s, p, "c")
	del(t, s, p, "a-longer-name")
	add(t, s, p, "d")
	if data, err := os.ReadFile(backup); err != nil || string(data) != "c1\r\neth0" {
		t.Errorf("backup %q, %v", data, err)
	}
	want := []string{"10.9.0.4=c\r\neth0", "10.9.0.5=d\r\neth0", "fd00::4=c\r\neth0", "fd00::5=d\r\neth0"}
	if diff := cmp.Diff(want, leaseFiles(t, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkStore(t, p)
}

// TestIndexLost proves that the index and the spare files are hints: any of it can go, or be nonsense.
func TestIndexLost(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(meta string) error
	}{
		{"all", os.RemoveAll},
		{"index", func(meta string) error { return os.Remove(filepath.Join(meta, "index")) }},
		{"index-empty", func(meta string) error { return os.Truncate(filepath.Join(meta, "index"), 0) }},
		{"index-cut", func(meta string) error { return os.Truncate(filepath.Join(meta, "index"), headerSize) }},
		{"spares", func(meta string) error { return os.Remove(filepath.Join(meta, spareName(1))) }},
		{"spare-is-a-link", func(meta string) error {
			return errors.Join(os.Remove(filepath.Join(meta, spareName(1))), os.Symlink("/etc/passwd", filepath.Join(meta, spareName(1))))
		}},
		{"swap-left", func(meta string) error { return os.WriteFile(filepath.Join(meta, "swap"), nil, 0o600) }},
		{"boot-id-nonsense", func(meta string) error { return os.WriteFile(filepath.Join(meta, "boot_id"), []byte("\x00"), 0o600) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, p := newStore(t, nil), poolOf(t, tiny)
			add(t, s, p, "c1")
			add(t, s, p, "c2")
			del(t, s, p, "c1")
			if err := test.damage(filepath.Join(p.Dir, ".cleat", "net")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Reserve(t.Context(), p, owner("c2"), false); !errors.Is(err, netstate.ErrExist) {
				t.Errorf("error %v", err)
			}
			add(t, s, p, "c3")
			del(t, s, p, "c3")
			if diff := cmp.Diff([]string{"10.9.0.3=c2\r\neth0"}, leaseFiles(t, p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSwapLeft proves that the file of a writer that was killed before its rename goes with the next operation, and the
// file of a rename that is refused at once.
func TestSwapLeft(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, tiny)
	add(t, s, p, "c1")
	meta := filepath.Join(p.Dir, ".cleat", "net")
	if err := os.WriteFile(filepath.Join(meta, "swap"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	del(t, s, p, "c2") // nothing to write for that
	checkStore(t, p)

	del(t, s, p, "c1")
	if err := errors.Join(os.Remove(filepath.Join(meta, "boot_id")), os.MkdirAll(filepath.Join(meta, "boot_id", "full"), 0o700)); err != nil {
		t.Fatal(err)
	}
	add(t, s, p, "c3")
	checkStore(t, p)
}

func TestB026LockHeld(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, tiny)
	add(t, s, p, "c1")
	lock, err := filelock.Acquire(t.Context(), filepath.Join(p.Dir, "net", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Reserve(ctx, p, owner("c2"), false)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "pid ") {
		t.Errorf("error %v", err)
	}
	if _, err := s.Reserve(t.Context(), p, owner("c2"), true); err != nil {
		t.Errorf("a dry run waited: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	add(t, s, p, "c2")
	checkStore(t, p)
}
