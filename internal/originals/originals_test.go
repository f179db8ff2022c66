package originals_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

var _ planned.Originals = originals.Store{}

func owner(network string) netstate.Owner {
	return netstate.Owner{Network: network, ContainerID: "c1", IfName: "eth0"}
}

func state() netstate.State {
	return netstate.State{
		Owner: owner("pods"), PodID: "4711",
		Links: []netstate.Link{{Place: netstate.Pod, Name: "eth0", MAC: "02:00:00:00:00:01", MTU: 1500, NoPromisc: true, AllMulti: netstate.Off, TxQLen: netstate.NoQueue}},
		Sysctls: []netstate.Sysctl{
			{Place: netstate.Pod, Name: "net/b", Value: "1\t2"}, {Place: netstate.Pod, Name: "net/a", Value: "0"},
		},
	}
}

func TestKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	var s originals.Store
	if got, err := s.Load(dir, owner("pods")); err != nil || !got.IsEmpty() {
		t.Errorf("nothing kept: %v, %v", got, err)
	}
	if err := s.Remove(dir, owner("pods")); err != nil {
		t.Errorf("remove nothing: %v", err)
	}
	if fresh, err := s.Save(dir, state()); !fresh || err != nil {
		t.Fatalf("save: %t, %v", fresh, err)
	}
	second := state()
	second.Links[0].MTU = 1400
	if fresh, err := s.Save(dir, second); fresh || err != nil {
		t.Errorf("save over what is kept: %t, %v", fresh, err)
	}
	got, err := s.Load(dir, owner("pods"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state(), got); diff != "" {
		t.Errorf("loaded (-want +got)\n%s", diff)
	}
	for range 2 {
		if err := s.Remove(dir, owner("pods")); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRefused(t *testing.T) {
	host := state()
	host.Links[0].Place = netstate.Host
	other := state()
	other.Links[0].Name = "eth1"
	value := state()
	value.Sysctls[0].Place = netstate.Host
	away := state()
	away.Owner.ContainerID = "../x"
	for name, s := range map[string]netstate.State{"host-link": host, "other-link": other, "host-sysctl": value, "path": away} {
		if _, err := (originals.Store{}).Save(t.TempDir(), s); err == nil {
			t.Errorf("%s is kept", name)
		}
	}
	if _, err := (originals.Store{}).Save("relative", state()); err == nil {
		t.Error("a relative folder is taken")
	}
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       string
		damaged    bool
	}{
		{name: "reference", text: `{"mac":"02:00:00:00:00:01","promisc":false,"mtu":1450,"allmulti":true,"txQLen":0}`,
			want: "pod  link eth0 mac 02:00:00:00:00:01 mtu 1450 nopromisc allmulti on txqlen -1\n"},
		{name: "promisc-alone", text: `{"promisc":true}`, want: "pod  link eth0 promisc\n"},
		{name: "empty", text: `{}`},
		{name: "mac-of-none", text: `{"mac":"00:00:00:00:00:00","mtu":1500}`, want: "pod  link eth0 mtu 1500\n"},
		{name: "cut", text: `{"mac":"02:00`, damaged: true},
		{name: "nothing", damaged: true},
		{name: "other-type", text: `{"mtu":"1500"}`, damaged: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "c1_eth0.json"), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := originals.Store{}.Load(dir, owner("pods"))
			if (err != nil) != tc.damaged || got.String() != tc.want {
				t.Errorf("got %q, %v, want %q", got.String(), err, tc.want)
			}
		})
	}
}

// TestPlanted: what may be somebody else's word is not done.
func TestPlanted(t *testing.T) {
	const text = `{"mtu":1400}`
	write := func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	for name, plant := range map[string]func(victim, path string) error{
		"link":                  os.Symlink,
		"folder":                func(_, path string) error { return os.Mkdir(path, 0o700) },
		"writable-by-everybody": func(_, path string) error { return errors.Join(write(path), os.Chmod(path, 0o602)) },
		"of-another-user":       func(_, path string) error { return errors.Join(write(path), os.Chown(path, 12345, -1)) },
		"sysctl-of-the-machine": func(_, path string) error {
			return os.WriteFile(path, []byte(`{"mtu":1400,"sysctls":[{"name":"kernel/core_pattern","value":"|/x"}]}`), 0o600)
		},
		"sysctl-that-climbs": func(_, path string) error {
			return os.WriteFile(path, []byte(`{"mtu":1400,"sysctls":[{"name":"net/../kernel/core_pattern","value":"|/x"}]}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
			if err := write(victim); err != nil {
				t.Fatal(err)
			}
			if err := plant(victim, filepath.Join(dir, "c1_eth0.json")); errors.Is(err, os.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			if got, err := (originals.Store{}).Load(dir, owner("pods")); err == nil || !got.IsEmpty() {
				t.Errorf("loaded %v, %v", got, err)
			}
		})
	}
}

// TestForeignFolder: nothing is kept where others can put their word in its place.
func TestForeignFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o757); err != nil {
		t.Fatal(err)
	}
	if _, err := (originals.Store{}).Save(dir, state()); !errors.Is(err, ownfile.ErrForeign) {
		t.Errorf("error %v", err)
	}
}

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	var s originals.Store
	for _, id := range []string{"c1", "c2"} {
		st := state()
		st.Owner.ContainerID = id
		if _, err := s.Save(dir, st); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		network string
		dryRun  bool
		freed   int
	}{{"others", false, 0}, {"pods", true, 1}, {"pods", false, 1}, {"pods", false, 0}} {
		freed, err := s.Collect(dir, step.network, []netstate.Owner{owner("pods")}, step.dryRun)
		if err != nil || len(freed) != step.freed {
			t.Errorf("%+v: %v, %v", step, freed, err)
		}
	}
	if got, err := s.Load(dir, owner("pods")); err != nil || got.IsEmpty() {
		t.Errorf("the valid one: %v, %v", got, err)
	}
	if freed, err := s.Collect(filepath.Join(dir, "none"), "pods", nil, false); err != nil || freed != nil {
		t.Errorf("no folder: %v, %v", freed, err)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{`{}`, `{"mac":"02:00:00:00:00:01","promisc":false,"mtu":1450,"allmulti":true,"txQLen":0}`,
		`{"network":"n","containerID":"c1","ifName":"eth0","sysctls":[{"name":"net/a","value":"1"}]}`} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, "c1_eth0.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := originals.Store{}.Load(dir, owner("pods"))
		if err != nil && !s.IsEmpty() {
			t.Errorf("a state beside an error: %s", s)
		}
	})
}

// TestKilledSave leaves a temporary file. The next Save takes its place, Remove and Collect take it away.
func TestKilledSave(t *testing.T) {
	var s originals.Store
	dir := t.TempDir()
	left := func(o netstate.Owner) string { return filepath.Join(dir, ".tmp-"+o.Mark()) }
	killed := func(o netstate.Owner) {
		t.Helper()
		if err := os.WriteFile(left(o), []byte(`{"mtu`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(o netstate.Owner) bool {
		_, err := os.Lstat(left(o))
		return errors.Is(err, os.ErrNotExist)
	}
	pods, other := owner("pods"), owner("other")
	killed(pods)
	killed(other)
	if _, err := s.Collect(dir, "pods", nil, true); err != nil || gone(pods) {
		t.Errorf("a dry run: %v", err)
	}
	if freed, err := s.Collect(dir, "pods", nil, false); err != nil || len(freed) > 0 || !gone(pods) || gone(other) {
		t.Errorf("collected %v, %v", freed, err)
	}
	killed(pods)
	if _, err := s.Collect(dir, "pods", []netstate.Owner{pods}, false); err != nil || gone(pods) {
		t.Errorf("the file of an owner that is valid: %v", err)
	}
	if fresh, err := s.Save(dir, state()); !fresh || err != nil || !gone(pods) {
		t.Errorf("save: %t, %v", fresh, err)
	}
	killed(pods)
	if err := s.Remove(dir, pods); err != nil || !gone(pods) {
		t.Errorf("remove: %v", err)
	}
}
