//go:build amd64 || arm64

package reliability

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cleat-cni/cleat/libcni"
)

// image is what lies in the folders of records and leases at one time, by path.
type image map[string]imageFile

type imageFile struct {
	inode uint64 // names with one inode are links
	dir   bool
	data  string
}

// take takes an image.
func (m *machine) take() image {
	m.Helper()
	im := image{}
	for _, root := range []string{"state", "data"} {
		m.must(ignoreMissing(filepath.WalkDir(m.path(root), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return ignoreMissing(err) // it has just gone
			}
			info, err := d.Info()
			if err != nil {
				return ignoreMissing(err)
			}
			f := imageFile{inode: info.Sys().(*syscall.Stat_t).Ino, dir: d.IsDir()}
			if !f.dir {
				data, err := os.ReadFile(path)
				if err != nil {
					return ignoreMissing(err)
				}
				f.data = string(data)
			}
			im[strings.TrimPrefix(path, m.Dir+"/")] = f
			return nil
		})))
	}
	return im
}

// lay puts an image in place of what lies there.
func (m *machine) lay(im image) {
	m.Helper()
	for _, root := range []string{"state", "data"} {
		m.must(os.RemoveAll(m.path(root)))
	}
	first := map[uint64]string{}
	for _, path := range slices.Sorted(maps.Keys(im)) {
		f := im[path]
		switch other, linked := first[f.inode]; {
		case f.dir:
			m.must(os.Mkdir(m.path(path), 0o755))
		case linked:
			m.must(os.Link(m.path(other), m.path(path)))
		default:
			m.must(os.WriteFile(m.path(path), []byte(f.data), 0o600))
			first[f.inode] = path
		}
	}
}

// damages are what a power cut makes of the content of files that were written a short time before, since nothing waits for
// the disk.
func damages() map[string]func(string) string {
	return map[string]func(string) string{
		"whole": func(s string) string { return s },
		"empty": func(string) string { return "" },
		"half":  func(s string) string { return s[:len(s)/2] },
		"zeros": func(s string) string { return strings.Repeat("\x00", len(s)) },
	}
}

// damaged is the image with a damage done to the files that are not as they were before.
func (im image) damaged(before image, by func(string) string) image {
	out := maps.Clone(im)
	for path, f := range im {
		if old, was := before[path]; !f.dir && (!was || old != f) {
			f.data = by(f.data)
			out[path] = f
		}
	}
	return out
}

// cut is a state of the disk at which the power goes.
type cut struct {
	before, now image
	call        string // that did not happen any more
}

// cuts does a job and lists the different states that its file operations go through.
func (m *machine) cuts(j job) []cut {
	m.Helper()
	before := m.take()
	var list []cut
	see := func(call string) {
		now := m.take()
		if len(list) == 0 || !maps.Equal(list[len(list)-1].now, now) {
			list = append(list, cut{before, now, call})
		}
	}
	if a := m.watch(j, see); !a.done() {
		m.Errorf("%s: %s", j.Verb, a.Err)
	}
	see("end")
	return list
}

// followUps are what is done first when the machine is on again.
func followUps() map[string]func(m *machine, s *side, list *libcni.NetworkConfigList) error {
	return map[string]func(m *machine, s *side, list *libcni.NetworkConfigList) error{
		"add": func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			if _, err := s.AddNetworkList(m.Context(), list, m.attachment(subject, 8002)); err != nil {
				return err
			}
			if err := s.CheckNetworkList(m.Context(), list, m.attachment(subject, 0)); err != nil {
				return err
			}
			return s.DelNetworkList(m.Context(), list, m.attachment(subject, 0))
		},
		"del": func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			return s.DelNetworkList(m.Context(), list, m.attachment(subject, 0))
		},
		"collect": func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			_, err := s.CollectNetworkList(m.Context(), list, libcni.CollectArgs{})
			return err
		},
		"gc": func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			return s.GCNetworkList(m.Context(), list, &libcni.GCArgs{})
		},
		"list": func(m *machine, s *side, list *libcni.NetworkConfigList) error {
			_, err := s.Attachments(m.Context())
			return err
		},
	}
}

// TestPowerCut cuts the sequence of file operations of each verb, those of records and of leases alike, at every point, does to the
// files that were written what a power cut does, and turns the machine on again. Whatever is done first succeeds, all addresses
// are to be had, and after DEL and GC nothing is left.
func TestPowerCut(t *testing.T) {
	rng := random(t, 3)
	for _, tc := range []struct {
		name    string
		verb    string
		prepare func(m *machine, s *side, list *libcni.NetworkConfigList)
	}{
		{"cold-add", verbAdd, func(m *machine, _ *side, _ *libcni.NetworkConfigList) { m.newPod(subject) }},
		{"add", verbAdd, func(m *machine, s *side, list *libcni.NetworkConfigList) {
			m.addAll(s, list, bystander)
			m.newPod(subject)
		}},
		{"del", verbDel, func(m *machine, s *side, list *libcni.NetworkConfigList) { m.addAll(s, list, bystander, subject) }},
		{"gc", verbGC, func(m *machine, s *side, list *libcni.NetworkConfigList) { m.addAll(s, list, bystander, subject) }},
		{"collect", verbCollect, func(m *machine, s *side, list *libcni.NetworkConfigList) {
			m.addAll(s, list, bystander, subject)
			m.newPod(subject)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			m.ownBoot()
			plugin := m.addressesAlone(4) // nothing of the kernel's outlives a power cut
			list := m.list(plugin)
			tc.prepare(m, m.open(0), list)
			cuts := m.cuts(job{Verb: tc.verb, On: m.wiring, Conf: conf(plugin), ID: subject})
			if len(cuts) < 4 {
				t.Errorf("only %d states were seen", len(cuts))
			}
			runs := 0
			for i, c := range cuts {
				for _, damage := range chosen(rng, slices.Sorted(maps.Keys(damages()))) {
					for _, follow := range chosen(rng, slices.Sorted(maps.Keys(followUps()))) {
						runs++
						m.booted(fmt.Sprintf("boot-%d", 1+runs)) // which no namespace survives, whatever is at its path
						m.lay(c.now.damaged(c.before, damages()[damage]))
						m.aged()
						if m.afterCut(list, follow); t.Failed() {
							t.Fatalf("state %d, before %s, files %s, then %s", i, c.call, damage, follow)
						}
					}
				}
			}
			t.Logf("%d states, %d runs", len(cuts), runs)
		})
	}
}

// chosen is one of the damages or follow-ups, or all of them with -reliability.every.
func chosen(rng *rand.Rand, all []string) []string {
	if *every {
		return all
	}
	i := rng.IntN(len(all))
	return all[i : i+1]
}

// afterCut does a follow-up, and then wants everything to be as on a machine that was never turned off.
func (m *machine) afterCut(list *libcni.NetworkConfigList, follow string) {
	m.Helper()
	s, err := m.wiring.open(0)
	m.must(err)
	defer func() { m.must(s.Close()) }()
	if err := followUps()[follow](m, s, list); err != nil {
		m.Errorf("%s: %v", follow, err)
		return
	}
	var addrs []string
	ids := []string{subject, "new2", "new3", "new4"}
	for _, id := range ids {
		if m.pods[id] == nil {
			m.newPod(id)
		}
		res, err := s.AddNetworkList(m.Context(), list, m.attachment(id, 0))
		if err != nil {
			m.Errorf("ADD: %v", err)
			return
		}
		addrs = append(addrs, res.IPs[0].Address.Addr().String())
	}
	m.distinct(addrs, len(ids))
	for _, id := range append(ids, bystander) {
		if err := s.DelNetworkList(m.Context(), list, m.attachment(id, 0)); err != nil {
			m.Errorf("DEL: %v", err)
		}
	}
	_, err = s.CollectNetworkList(m.Context(), list, libcni.CollectArgs{})
	m.must(err)
	if left := m.files(); len(left) > 0 {
		m.Errorf("left in the end: %q", left)
	}
}
