package leases

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/netstate"
)

// TestReboot tries each ground for keeping a lease.
func TestReboot(t *testing.T) {
	before, after := boot.Add(-time.Hour), boot.Add(time.Hour)
	for _, test := range []struct {
		name   string
		bootID string // of the folder; "" is missing
		made   time.Time
		alive  bool
		kept   bool
	}{
		{"same-boot", "boot-1", before, false, true},
		{"other-boot-old-dead", "boot-0", before, false, false},
		{"other-boot-old-alive", "boot-0", before, true, true},
		{"other-boot-new-dead", "boot-0", after, false, true},
		{"no-boot-old-dead", "", before, false, false},
		{"no-boot-old-alive", "", before, true, true},
		{"no-boot-new-dead", "", after, false, true},
		{"at-boot", "", boot, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			s := newStore(t, func(c *Config) {
				c.Alive = func(id string) bool {
					asked++
					return test.alive && id == "old"
				}
			})
			p := poolOf(t, tiny)
			if test.bootID != "" {
				earlier := newStore(t, func(c *Config) { c.BootID = test.bootID })
				add(t, earlier, p, "old")
			} else {
				put(t, p, "10.9.0.2", "old\r\neth0")
			}
			file := filepath.Join(p.Dir, "net", "10.9.0.2")
			if err := os.Chtimes(file, test.made, test.made); err != nil {
				t.Fatal(err)
			}
			_, err := s.Reserve(t.Context(), p, owner("old"), true)
			if kept := errors.Is(err, netstate.ErrExist); kept != test.kept {
				t.Errorf("dry run: error %v", err)
			}
			if _, err := os.Lstat(file); err != nil {
				t.Errorf("the dry run changed the folder: %v", err)
			}
			held, err := s.Held(t.Context(), p, owner("old"))
			if kept := len(held) == 1; err != nil || kept != test.kept {
				t.Errorf("held %v, error %v", held, err)
			}
			asked = 0
			add(t, s, p, "new")
			if asked > 0 {
				t.Errorf("asked %d times after the first use in this boot", asked)
			}
			checkStore(t, p)
		})
	}
}

// TestB001RebootFillsNoPool is the whole story: every address is taken, the machine is started anew, and no DEL comes.
func TestB001RebootFillsNoPool(t *testing.T) {
	p := poolOf(t, tiny)
	for _, bootID := range []string{"boot-1", "boot-2", "boot-3"} {
		s := newStore(t, func(c *Config) {
			c.BootID, c.BootTime = bootID, time.Now().Add(time.Hour)
		})
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			add(t, s, p, id+bootID)
		}
		checkStore(t, p)
	}
}

func TestCollectReturnsVoids(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, tiny)
	file := put(t, p, "10.9.0.2", "old\r\neth0")
	if err := os.Chtimes(file, boot.Add(-time.Hour), boot.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	put(t, p, "10.9.0.3", "new\r\neth0")
	freed, err := s.Collect(t.Context(), p, nil, false)
	if err != nil || addresses(freed) != "10.9.0.2 10.9.0.3" {
		t.Errorf("freed %v, error %v", freed, err)
	}
}

// writeRecord writes a record as the reference library does.
func writeRecord(t *testing.T, stateDir, name string, record map[string]any) {
	t.Helper()
	data, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(stateDir, "results", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestB001AliveByRecord uses this process's own namespace as that of a container; it is only opened.
func TestB001AliveByRecord(t *testing.T) {
	state := t.TempDir()
	for id, netns := range map[string]string{
		"living": "/proc/self/ns/net", "other-kind": "/proc/self/ns/mnt", "gone": filepath.Join(state, "gone"), "file": state + "/file", "none": "",
	} {
		writeRecord(t, state, "net-"+id+"-eth0", map[string]any{"kind": "cniCacheV1", "containerId": id, "ifName": "eth0", "networkName": "net", "netns": netns})
	}
	writeRecord(t, state, "net-kind-eth0", map[string]any{"kind": "other", "containerId": "kind", "netns": "/proc/self/ns/net"})
	cookie, err := netns.CookieOf("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for id, extra := range map[string]any{
		"same":         map[string]any{"bootId": "boot-1", "netnsCookie": strconv.FormatUint(cookie, 10)},
		"earlier-boot": map[string]any{"bootId": "boot-0", "netnsCookie": strconv.FormatUint(cookie, 10)},
		"path-again":   map[string]any{"bootId": "boot-1", "netnsCookie": strconv.FormatUint(cookie+1, 10)},
		"foreign-key":  []int{1},
	} {
		writeRecord(t, state, "net-"+id+"-eth0", map[string]any{"kind": "cniCacheV1", "containerId": id, "netns": "/proc/self/ns/net", "cleat": extra})
	}
	for name, content := range map[string]string{"file": "", "results/empty": "", "results/list": "[1]", "results/text": "\x00"} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := mkfifo(filepath.Join(state, "results", "fifo")); err != nil {
		t.Fatal(err)
	}
	s, p := newStore(t, func(c *Config) { c.StateDir = state }), poolOf(t, "10.9.0.0/24 10.9.0.2-10.9.0.99")
	for i, id := range []string{"living", "other-kind", "gone", "file", "none", "kind", "unknown", "same", "earlier-boot", "path-again", "foreign-key"} {
		file := put(t, p, fmt.Sprintf("10.9.0.%d", 10+i), id+"\r\neth0")
		if err := os.Chtimes(file, boot.Add(-time.Hour), boot.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	del(t, s, p, "nobody")
	if diff := cmp.Diff([]string{"10.9.0.10=living\r\neth0", "10.9.0.17=same\r\neth0", "10.9.0.20=foreign-key\r\neth0"}, leaseFiles(t, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestB033LostStore proves that the addresses of living containers are not given out when the store was removed or moved under
// them.
func TestB033LostStore(t *testing.T) {
	for _, lose := range []struct {
		name string
		path func(p netstate.Pool) string
	}{
		{"all", func(p netstate.Pool) string { return p.Dir }},
		{"network", func(p netstate.Pool) string { return filepath.Join(p.Dir, p.Network) }},
	} {
		t.Run(lose.name, func(t *testing.T) {
			state := t.TempDir()
			s, p := newStore(t, func(c *Config) { c.StateDir = state }), poolOf(t, tiny, v6)
			if got := add(t, s, p, "c1"); got != "10.9.0.2 fd00::2" {
				t.Fatal(got)
			}
			writeRecord(t, state, "net-c1-eth0", map[string]any{
				"kind": "cniCacheV1", "containerId": "c1", "ifName": "eth0", "networkName": "net", "netns": "/proc/self/ns/net",
				"result": map[string]any{"cniVersion": "1.1.0", "ips": []any{map[string]any{"address": "10.9.0.2/29"}, map[string]any{"address": "fd00::2/64"}, map[string]any{"address": "192.0.2.1/24"}}},
			})
			writeRecord(t, state, "net-c2-eth0", map[string]any{
				"kind": "cniCacheV1", "containerId": "c2", "ifName": "eth0", "networkName": "net", "netns": "/proc/self/ns/net",
				"result": map[string]any{"cniVersion": "0.2.0", "ip4": map[string]any{"ip": "10.9.0.3/29"}},
			})
			writeRecord(t, state, "other-c3-eth0", map[string]any{
				"kind": "cniCacheV1", "containerId": "c3", "ifName": "eth0", "networkName": "other", "netns": "/proc/self/ns/net",
				"result": map[string]any{"ips": []any{map[string]any{"address": "10.9.0.4/29"}}},
			})
			if err := os.RemoveAll(lose.path(p)); err != nil {
				t.Fatal(err)
			}
			peeked, err := s.Reserve(t.Context(), p, owner("c9"), true)
			if err != nil || addresses(peeked) != "10.9.0.4 fd00::3" {
				t.Errorf("peeked %v, error %v", peeked, err)
			}
			if _, err := s.Reserve(t.Context(), p, owner("c1"), true); !errors.Is(err, netstate.ErrExist) {
				t.Errorf("error %v", err)
			}
			del(t, s, p, "nobody") // without folder it makes none, and takes no chance away
			if got := add(t, s, p, "c9"); got != "10.9.0.4 fd00::3" {
				t.Error(got)
			}
			want := "10.9.0.2=c1 10.9.0.3=c2 10.9.0.4=c9 fd00::2=c1 fd00::3=c9"
			if diff := cmp.Diff(want, strings.ReplaceAll(strings.Join(leaseFiles(t, p), " "), "\r\neth0", "")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkStore(t, p)
		})
	}
}

func TestKernelBootTime(t *testing.T) {
	got, err := kernelBootTime()
	if err != nil || got.After(time.Now()) || got.Year() < 2000 {
		t.Errorf("%v, error %v", got, err)
	}
	s, err := New(Config{})
	if err != nil || len(s.cfg.BootID) != 36 {
		t.Errorf("boot id %q, error %v", s.cfg.BootID, err)
	}
}

// TestBootWithoutID is of a kernel that tells no boot id: a boot is known by its time, and what a record says of boots tells nothing.
func TestBootWithoutID(t *testing.T) {
	state, p := t.TempDir(), poolOf(t, tiny)
	now := time.Now()
	at := func(began time.Time) *Store { // whatever the kernel here has
		s := newStore(t, func(c *Config) { c.StateDir, c.BootTime = state, began })
		s.cfg.BootID = ""
		return s
	}
	add(t, at(now.Add(-time.Hour)), p, "living")
	add(t, at(now.Add(-time.Hour)), p, "dead")
	writeRecord(t, state, "net-living-eth0", map[string]any{"kind": "cniCacheV1", "containerId": "living", "ifName": "eth0", "networkName": "net",
		"netns": "/proc/self/ns/net", "cleat": map[string]any{"bootId": "boot-1"}})
	del(t, at(now.Add(-time.Minute)), p, "nobody") // as after a step of the clock: nothing is older than that boot
	if got := len(leaseFiles(t, p)); got != 2 {
		t.Errorf("%d leases after the clock was set, want 2", got)
	}
	del(t, at(now.Add(time.Hour)), p, "nobody")
	if diff := cmp.Diff([]string{"10.9.0.2=living\r\neth0"}, leaseFiles(t, p)); diff != "" {
		t.Errorf("after a boot (-want +got):\n%s", diff)
	}
	checkStore(t, p)
}
