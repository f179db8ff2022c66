package reliability

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
)

// cover mounts a file or folder over another for the time of the test.
func (m *machine) cover(path, with string) {
	m.Helper()
	m.must(unix.Mount(with, path, "", unix.MS_BIND, ""))
	m.Cleanup(func() { m.must(unix.Unmount(path, unix.MNT_DETACH)) })
}

// ownBoot lets the test say what the kernel says of its boot. No other test may run meanwhile.
func (m *machine) ownBoot() {
	m.Helper()
	m.must(os.Mkdir(m.path("ns", "boot"), 0o755))
	for name, over := range map[string]string{"boot_id": "/proc/sys/kernel/random/boot_id", "stat": "/proc/stat"} {
		file := m.path("ns", "boot", name)
		m.must(os.WriteFile(file, nil, 0o644))
		m.cover(over, file)
	}
	m.booted("boot-1")
}

// booted makes this the boot with an id; it began a minute ago.
func (m *machine) booted(id string) {
	m.Helper()
	m.must(os.WriteFile(m.path("ns", "boot", "boot_id"), []byte(id+"\n"), 0o644))
	m.must(os.WriteFile(m.path("ns", "boot", "stat"), fmt.Appendf(nil, "btime %d\n", time.Now().Add(-time.Minute).Unix()), 0o644))
}

// powerCycle ends all namespaces and what is below /run, and makes what is on disk older than the boot that begins.
func (m *machine) powerCycle(id string) {
	m.Helper()
	m.restartNode()
	m.aged()
	m.booted(id)
}

// restartNode is what becomes of a node that is a container: its namespaces and its /run end, the kernel does not.
func (m *machine) restartNode() {
	m.Helper()
	for pod := range m.pods {
		m.removePod(pod)
	}
	m.must(errors.Join(netns.Unmount(m.pod("host")), m.host.Close()))
	m.bootHost()
	for _, dir := range []string{"lock", "tuning"} {
		m.must(os.RemoveAll(m.path(dir)))
	}
}

// aged makes all leases and records an hour old.
func (m *machine) aged() {
	m.Helper()
	before := time.Now().Add(-time.Hour)
	for _, dir := range []string{"data", "state"} {
		m.must(ignoreMissing(filepath.WalkDir(m.path(dir), func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Chtimes(path, before, before)
		})))
	}
}

// few is a network with four addresses.
func (w wiring) few() []map[string]any {
	bridge := w.bridge()
	bridge["ipam"] = w.addresses(4)
	return []map[string]any{bridge, portmap()}
}

// addresses is an IPAM section with so many addresses.
func (w wiring) addresses(n int) map[string]any {
	return map[string]any{"type": "host-local", "dataDir": w.path("data"), "ranges": []any{[]any{map[string]any{
		"subnet": "10.99.0.0/24", "rangeStart": "10.99.0.2", "rangeEnd": fmt.Sprintf("10.99.0.%d", 1+n)}}}}
}

// addressesAlone is a plugin that gives addresses and does nothing else: what there is to test is on the disk.
func (w wiring) addressesAlone(n int) map[string]any {
	return map[string]any{"type": "host-local", "ipam": w.addresses(n)}
}

// addAll adds containers in namespaces of their own, and returns the address of each; "" where there was none left.
func (m *machine) addAll(s *side, list *libcni.NetworkConfigList, ids ...string) []string {
	m.Helper()
	var addrs []string
	for _, id := range ids {
		m.newPod(id)
		port := 10_000 + int(crc32.ChecksumIEEE([]byte(id))%10_000)
		res, err := s.AddNetworkList(m.Context(), list, m.attachment(id, port))
		switch {
		case errors.Is(err, netstate.ErrExhausted):
			addrs = append(addrs, "")
		case err != nil:
			m.Fatal(err)
		default:
			addrs = append(addrs, res.IPs[0].Address.Addr().String())
		}
	}
	return addrs
}

// distinct wants as many addresses as are not "", and none twice.
func (m *machine) distinct(addrs []string, want int) {
	m.Helper()
	seen := map[string]bool{}
	for _, a := range addrs {
		if a != "" && seen[a] {
			m.Errorf("%s was given twice: %q", a, addrs)
		}
		seen[a] = true
	}
	delete(seen, "")
	if len(seen) != want {
		m.Errorf("%d addresses were given, want %d: %q", len(seen), want, addrs)
	}
}

// TestReboot fills the range, turns the machine off and on without a DEL, and then does one of the verbs first. Whichever it is, all
// addresses are to be had again, and in the end nothing is left of the boot before.
func TestReboot(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first func(m *machine, s *side, list *libcni.NetworkConfigList) error
	}{
		{"add", func(*machine, *side, *libcni.NetworkConfigList) error { return nil }},
		{"add-of-the-same", func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			m.distinct(m.addAll(s, list, "old1", "old2", "old3", "old4"), 4)
			for _, id := range []string{"old1", "old2", "old3", "old4"} {
				m.must(s.DelNetworkList(m.Context(), list, m.attachment(id, 0)))
			}
			return nil
		}},
		{"del", func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			return s.DelNetworkList(m.Context(), list, m.attachment("old1", 0))
		}},
		{"del-by-record", func(m *machine, s *side, _ *libcni.NetworkConfigList) error {
			all, err := s.Attachments(m.Context())
			if err != nil || len(all) != 4 || all[0].State != libcni.StateOrphan {
				m.Errorf("attachments of the boot before: %+v, %v", all, err)
			}
			return s.DelAttachment(m.Context(), all[0])
		}},
		{"gc", func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			return s.GCNetworkList(m.Context(), list, &libcni.GCArgs{})
		}},
		{"collect", func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			_, err := s.CollectNetworkList(m.Context(), list, libcni.CollectArgs{})
			return err
		}},
		{"status", func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			return s.GetStatusNetworkList(m.Context(), list)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			m.ownBoot()
			list := m.list(m.few()...)
			m.distinct(m.addAll(m.open(0), list, "old1", "old2", "old3", "old4"), 4)
			for boot := 2; boot < 4; boot++ { // twice: nothing adds up
				m.powerCycle(fmt.Sprintf("boot-%d", boot))
				s := m.open(0)
				m.must(tc.first(m, s, list))
				m.distinct(m.addAll(s, list, "old1", "new2", "new3", "new4", "new5"), 4)
				_, err := s.CollectNetworkList(t.Context(), list, libcni.CollectArgs{})
				m.must(err)
				m.must(s.CheckNetworkList(t.Context(), list, m.attachment("new4", 0)))
				for _, id := range []string{"old1", "new2", "new3", "new4"} {
					m.must(s.DelNetworkList(t.Context(), list, m.attachment(id, 0)))
				}
				m.bare("after DEL")
				m.distinct(m.addAll(s, list, "old1", "old2", "old3", "old4"), 4)
			}
		})
	}
}

// TestRebootKeepsWhatLives has leases that are as old as those of an earlier boot, or in a folder that says nothing of boots, but whose
// owners live. They are kept, and their addresses not given out.
func TestRebootKeepsWhatLives(t *testing.T) {
	for _, tc := range []struct {
		name  string
		turn  func(m *machine)
		lives bool // the attached container, too
		free  int  // addresses that are to be had afterwards
	}{
		{"the-reference-wrote-in-between", func(m *machine) {
			m.powerCycle("boot-2")
			m.must(os.WriteFile(m.path("data", network, "10.99.0.5"), []byte("foreign\r\neth0"), 0o600))
		}, false, 3},
		{"the-reference-has-a-record", func(m *machine) {
			m.powerCycle("boot-2")
			m.newPod("foreign")
			record := fmt.Appendf(nil, `{"kind":"cniCacheV1","containerId":"foreign","ifName":"eth0","networkName":%q,"netns":%q,"config":"e30="}`,
				network, m.pod("foreign"))
			m.must(os.WriteFile(m.path("state", "results", network+"-foreign-eth0"), record, 0o600))
			m.must(os.WriteFile(m.path("data", network, "10.99.0.5"), []byte("foreign\r\neth0"), 0o600))
			m.aged()
		}, false, 3},
		{"the-boot-id-of-the-folder-is-missing", func(m *machine) {
			m.aged()
			m.must(os.RemoveAll(m.path("data", ".cleat")))
		}, true, 3},
		{"the-boot-id-of-the-folder-is-another", func(m *machine) {
			m.aged()
			m.must(os.WriteFile(m.path("data", ".cleat", network, "boot_id"), []byte("boot-0 1 2\n"), 0o600))
		}, true, 3},
		{"the-folder-was-copied", func(m *machine) {
			m.must(os.Rename(m.path("data", network), m.path("data", "away")))
			m.must(os.CopyFS(m.path("data", network), os.DirFS(m.path("data", "away"))))
			m.must(os.RemoveAll(m.path("data", "away")))
			m.aged()
		}, true, 3},
		{"the-clock-was-set", func(m *machine) { m.aged() }, true, 3},
		{"the-runtime-was-restarted", func(*machine) {}, true, 3},
		{"the-kernel-does-not-tell-its-boot", func(m *machine) {
			m.must(os.Mkdir(m.path("ns", "empty"), 0o755))
			m.cover("/proc/sys/kernel/random", m.path("ns", "empty"))
			m.aged()
		}, true, 3},
		{"a-power-cycle-of-a-kernel-that-does-not-tell-its-boot", func(m *machine) {
			m.must(os.Mkdir(m.path("ns", "empty"), 0o755))
			m.cover("/proc/sys/kernel/random", m.path("ns", "empty"))
			m.powerCycle("")
		}, false, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			m.ownBoot()
			list := m.list(m.few()...)
			before := m.addAll(m.open(0), list, "old1")
			tc.turn(m)
			s := m.open(0)
			ids := []string{"new1", "new2", "new3", "new4"}
			got := m.addAll(s, list, ids...)
			if !tc.lives {
				m.distinct(got, tc.free)
			} else {
				m.distinct(append(got, before...), tc.free+1)
				m.must(s.CheckNetworkList(t.Context(), list, m.attachment("old1", 0)))
			}
			if file := m.path("data", network, "10.99.0.5"); strings.HasPrefix(tc.name, "the-reference") {
				if owner, err := os.ReadFile(file); err != nil || string(owner) != "foreign\r\neth0" {
					t.Errorf("%s: %q, %v", file, owner, err)
				}
				m.must(os.Remove(file))
				m.must(ignoreMissing(os.Remove(m.path("state", "results", network+"-foreign-eth0"))))
			}
			for _, id := range append(ids, "old1") {
				m.must(s.DelNetworkList(t.Context(), list, m.attachment(id, 0)))
			}
			m.bare("after DEL")
		})
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// TestNodeInAContainerRestarts: the node's containers and its /run end, but the kernel's boot goes on, and paths of namespaces are
// used again. An ADD of the same container works, what is gone is freed by the first GC by liveness, and what lives is kept.
func TestNodeInAContainerRestarts(t *testing.T) {
	m := newMachine(t)
	list := m.list(m.few()...)
	m.distinct(m.addAll(m.open(0), list, "old1", "old2", "old3", "old4"), 4)
	m.restartNode()
	s := m.open(0)
	m.newPod("old2") // at the same path, but not the one that was attached
	first := m.addAll(s, list, "old1")
	m.distinct(first, 1)
	if err := s.CheckNetworkList(t.Context(), list, m.attachment("old2", 0)); err == nil {
		t.Error("CHECK of a container whose namespace is another is content")
	}
	freed, err := s.CollectNetworkList(t.Context(), list, libcni.CollectArgs{})
	m.must(err)
	gone := map[string]bool{}
	for _, f := range freed {
		if f.Kind == "attachment" {
			gone[f.Owner.ContainerID] = true
		}
	}
	if len(gone) != 3 || gone["old1"] {
		t.Errorf("freed: %v", gone)
	}
	m.must(s.CheckNetworkList(t.Context(), list, m.attachment("old1", 0)))
	m.distinct(append(first, m.addAll(s, list, "old2", "new3", "new4", "new5")...), 4)
	for _, id := range []string{"old1", "old2", "new3", "new4"} {
		m.must(s.DelNetworkList(t.Context(), list, m.attachment(id, 0)))
	}
	m.bare("after DEL")
}
