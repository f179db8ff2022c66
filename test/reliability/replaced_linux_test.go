package reliability

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/libcni"
)

// configure writes the network's file anew, by a rename as configurations have to be replaced.
func (m *machine) configure(text []byte) {
	m.Helper()
	m.must(os.WriteFile(m.path("conf", ".new"), text, 0o644))
	m.must(os.Rename(m.path("conf", ".new"), m.path("conf", "10-net.conflist")))
}

// delete deletes an attachment as a runtime does: with the network's configuration, or by the record where there is none.
func (m *machine) delete(s *side, id string) error {
	m.Helper()
	list, err := libcni.LoadConfList(m.path("conf"), network)
	if err == nil {
		return s.DelNetworkList(m.Context(), list, m.attachment(id, 0))
	}
	all, listErr := s.Attachments(m.Context())
	m.must(listErr)
	i := slices.IndexFunc(all, func(a *libcni.NetworkAttachment) bool { return a.ContainerID == id })
	if i < 0 {
		return fmt.Errorf("%s is neither configured (%w) nor recorded", id, err)
	}
	return s.DelAttachment(m.Context(), all[i])
}

// TestConfigurationReplaced replaces the network's configuration, or takes it away, between ADD and DEL. DEL removes what ADD made.
func TestConfigurationReplaced(t *testing.T) {
	for _, tc := range []struct {
		name    string
		replace func(m *machine)
	}{
		{"another-bridge", func(m *machine) {
			b := m.bridge()
			b["bridge"], b["ipMasq"] = "cni7", false
			m.configure(conf(b))
		}},
		{"another-plugin", func(m *machine) {
			p := m.bridge()
			p["type"] = "ptp"
			m.configure(conf(p, portmap()))
		}},
		{"another-folder-of-leases", func(m *machine) {
			b := m.bridge()
			b["ipam"].(map[string]any)["dataDir"] = m.path("elsewhere")
			m.configure(conf(b, portmap()))
		}},
		{"a-plugin-that-is-not-there", func(m *machine) { m.configure(conf(map[string]any{"type": "none"})) }},
		{"no-json", func(m *machine) { m.configure([]byte(`{"name":"net",`)) }},
		{"empty", func(m *machine) { m.configure(nil) }},
		{"renamed-network", func(m *machine) {
			m.configure([]byte(strings.Replace(string(conf(m.bridge())), `"name":"net"`, `"name":"other"`, 1)))
		}},
		{"folder-deleted", func(m *machine) { m.must(os.RemoveAll(m.path("conf"))) }},
		{"folder-is-a-file", func(m *machine) {
			m.must(os.RemoveAll(m.path("conf")))
			m.must(os.WriteFile(m.path("conf"), nil, 0o644))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.configure(conf(m.chain()...))
			list, err := libcni.LoadConfList(m.path("conf"), network)
			m.must(err)
			s := m.open(0)
			clean := m.settle(s, list)
			_, err = s.AddNetworkList(t.Context(), list, m.attachment(subject, 8002))
			m.must(err)
			tc.replace(m)
			m.must(m.delete(s, subject))
			m.same("after DEL", clean)
			m.must(s.CheckNetworkList(t.Context(), list, m.attachment(bystander, 0)))
		})
	}
}

// TestConfigurationDeletedAndDead: what died without DEL is freed also when the network's configuration is gone.
func TestConfigurationDeletedAndDead(t *testing.T) {
	m := newMachine(t)
	s, list := m.open(0), m.list(m.chain()...)
	clean := m.settle(s, list)
	_, err := s.AddNetworkList(t.Context(), list, m.attachment(subject, 8002))
	m.must(err)
	m.newPod(subject)
	m.must(m.delete(s, subject))
	m.same("after DEL by the record", clean)
}

// TestProgramReplacedInMidRun replaces another maker's plugin again and again while it is started all the time.
func TestProgramReplacedInMidRun(t *testing.T) {
	m := newMachine(t)
	m.script("wild", answers)
	s, list := m.open(0), m.list(m.bridge(), map[string]any{"type": "wild"})
	stop := make(chan struct{})
	var wait sync.WaitGroup
	replaced := 0
	wait.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				m.script("wild", fmt.Sprintf("# version %d\n%s", replaced, answers))
				replaced++
			}
		}
	})
	var pods sync.WaitGroup
	for i := range 3 {
		id := fmt.Sprintf("pod%d", i)
		m.newPod(id)
		pods.Go(func() {
			for range 12 {
				if _, err := s.AddNetworkList(t.Context(), list, m.attachment(id, 0)); err != nil {
					t.Errorf("ADD: %v", err)
				}
				if err := s.DelNetworkList(t.Context(), list, m.attachment(id, 0)); err != nil {
					t.Errorf("DEL: %v", err)
				}
			}
		})
	}
	pods.Wait()
	close(stop)
	wait.Wait()
	t.Logf("replaced %d times", replaced)
	m.bare("in the end")
}

// TestProgramTakenAway takes a plugin away, or puts another program in the place of a built-in one, between ADD and DEL. As long
// as it can't do its part DEL fails and forgets nothing; when it can again DEL removes everything.
func TestProgramTakenAway(t *testing.T) {
	for _, tc := range []struct {
		name       string
		take, back func(m *machine)
		error      string
	}{
		{"gone", func(m *machine) { m.must(os.Remove(m.path("bin", "wild"))) }, func(m *machine) { m.script("wild", answers) }, "wild"},
		{"half-written", func(m *machine) { m.must(os.WriteFile(m.path("bin", "wild"), []byte("\x7fELF"), 0o755)) },
			func(m *machine) { m.script("wild", answers) }, "exec format error"},
		{"not-executable", func(m *machine) { m.must(os.Chmod(m.path("bin", "wild"), 0o644)) },
			func(m *machine) { m.must(os.Chmod(m.path("bin", "wild"), 0o755)) }, "not executable"},
		{"another-bridge", func(m *machine) { m.script("bridge", "exit 3") },
			func(m *machine) { m.must(os.Remove(m.path("bin", "bridge"))) }, "exit status 3"},
		{"folder-gone", func(m *machine) { m.must(os.Rename(m.path("bin"), m.path("ns", "away"))) },
			func(m *machine) { m.must(os.Rename(m.path("ns", "away"), m.path("bin"))) }, "wild"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.script("wild", answers)
			s, list := m.open(0), m.list(m.bridge(), portmap(), map[string]any{"type": "wild"})
			clean := m.settle(s, list)
			_, err := s.AddNetworkList(t.Context(), list, m.attachment(subject, 8002))
			m.must(err)
			tc.take(m)
			err = s.DelNetworkList(t.Context(), list, m.attachment(subject, 0))
			if err == nil || !strings.Contains(err.Error(), tc.error) {
				t.Errorf("DEL: %v, want an error about %q", err, tc.error)
			}
			if known, err := s.GetNetworkListCachedResult(list, m.attachment(subject, 0)); err != nil || known == nil {
				t.Errorf("forgotten: %v", err)
			}
			tc.back(m)
			m.must(s.DelNetworkList(t.Context(), list, m.attachment(subject, 0)))
			m.same("after DEL", clean)
		})
	}
}

// TestFoldersTakenAway takes one of the folders away that runtime and plugins keep things in, while a container is attached: with
// the records nobody knows any more that it is, so DEL finds everything by name and mark; leases come back from
// the records.
func TestFoldersTakenAway(t *testing.T) {
	for _, folder := range []string{"state", "data", "lock", "tuning"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			s, list := m.open(0), m.list(m.chain()...)
			clean := m.settle(s, list)
			_, err := s.AddNetworkList(t.Context(), list, m.attachment(subject, 8002))
			m.must(err)
			m.must(os.RemoveAll(m.path(folder)))
			m.must(s.DelNetworkList(t.Context(), list, m.attachment(subject, 0)))
			m.newPod(subject) // its sysctls can't be put back without the folder of originals
			// What the bystander had in the folder is gone with it.
			want := slices.DeleteFunc(strings.Split(clean, "\n"), func(line string) bool { return strings.HasPrefix(line, "file "+folder+"/") })
			got := strings.Split(m.dump(), "\n")
			if folder == "data" {
				got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "file data/net/10.99.0.2") })
			}
			if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
				t.Errorf("after DEL (-want +got):\n%s", diff)
			}
			if folder == "state" {
				return // nobody knows any more that the bystander has its address
			}
			res, err := s.AddNetworkList(t.Context(), list, m.attachment(subject, 8002))
			m.must(err)
			if addr := res.IPs[0].Address.Addr().String(); addr == "10.99.0.2" {
				t.Error("the bystander's address was given again")
			}
			m.must(s.CheckNetworkList(t.Context(), list, m.attachment(subject, 0)))
		})
	}
}

// TestDamagedOriginals: what tuning keeps for DEL is damaged, or another container's of that name left it in an earlier boot. DEL removes
// the attachment all the same.
func TestDamagedOriginals(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "half": `{"mtu":15`, "zeros": "\x00\x00\x00\x00",
		"another's":       `{"mtu":1300,"network":"other","containerID":"x","ifName":"eth9"}`,
		"an-earlier-boot": `{"mtu":1300,"network":"net","containerID":"subject","ifName":"eth0"}`,
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s-after-add-%t", name, after), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				s, list := m.open(0), m.list(m.bridge(), m.chain()[4])
				clean := m.settle(s, list)
				m.newPod(subject)
				damage := func() { m.must(os.WriteFile(m.path("tuning", "subject_eth0.json"), []byte(content), 0o600)) }
				if !after {
					damage()
				}
				_, err := s.AddNetworkList(t.Context(), list, m.attachment(subject, 0))
				m.must(err)
				if after {
					damage()
				}
				m.must(s.DelNetworkList(t.Context(), list, m.attachment(subject, 0)))
				m.newPod(subject) // its sysctls could not be put back
				m.same("after DEL", clean)
			})
		}
	}
}
