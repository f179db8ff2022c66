package leases

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// model is what the folder must hold: address -> content.
type model map[string]string

// TestModel does random things, some of them as the reference would, and compares the folder with a model after each.
func TestModel(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s, p := newStore(t, nil), poolOf(t, "10.9.0.0/26 10.9.0.0-10.9.0.63 10.9.0.1", "fd00::/64 fd00::1-fd00::50 fd00::1")
			m := model{}
			for i := range 150 {
				what := m.step(t, r, s, p)
				var want []string
				for a, content := range m {
					want = append(want, a+"="+content)
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, slices.Concat(leaseFiles(t, p))); diff != "" {
					t.Fatalf("step %d, %s (-want +got):\n%s", i, what, diff)
				}
			}
			if _, err := s.Collect(t.Context(), p, nil, false); err != nil {
				t.Fatal(err)
			}
			checkStore(t, p)
		})
	}
}

func (m model) step(t *testing.T, r *rand.Rand, s *Store, p netstate.Pool) string {
	t.Helper()
	id := fmt.Sprintf("c%d/eth%d", r.IntN(30), r.IntN(2))
	o := owner(id)
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		m.add(t, s, p, o)
		return "add " + id
	case 4, 5, 6:
		if err := s.Release(t.Context(), p, o); err != nil {
			t.Fatal(err)
		}
		m.del(o)
		return "del " + id
	case 7:
		name := netip.AddrFrom4([4]byte{10, 9, 0, byte(2 + r.IntN(60))}).String()
		if m[name] == "" {
			content := []string{"", "ref", "ref" + id + "\r\neth0"}[r.IntN(3)]
			put(t, p, name, content)
			m[name] = content
		}
		return "the reference adds " + name
	case 8:
		for name := range m {
			if err := os.Remove(filepath.Join(p.Dir, "net", name)); err != nil {
				t.Fatal(err)
			}
			delete(m, name)
			return "the reference removes " + name
		}
		return "nothing"
	default:
		m.collect(t, s, p, o)
		return "collect all but " + id
	}
}

func (m model) holds(o netstate.Owner) bool {
	for _, content := range m {
		if content == o.ContainerID+"\r\n"+o.IfName || content == o.ContainerID {
			return true
		}
	}
	return false
}

func (m model) add(t *testing.T, s *Store, p netstate.Pool, o netstate.Owner) {
	t.Helper()
	peeked, _ := s.Reserve(t.Context(), p, o, true)
	leases, err := s.Reserve(t.Context(), p, o, false)
	if addresses(peeked) != addresses(leases) {
		t.Fatalf("peeked %v, got %v", peeked, leases)
	}
	switch {
	case m.holds(o) != errors.Is(err, netstate.ErrExist):
		t.Fatalf("%s holds %v, error %v", o, m.holds(o), err)
	case errors.Is(err, netstate.ErrExist), errors.Is(err, netstate.ErrExhausted):
		return
	case err != nil:
		t.Fatal(err)
	}
	for _, l := range leases {
		if strings.TrimSpace(m[l.Addr.String()]) != "" || reserved(p, l.Addr) != "" {
			t.Fatalf("%s was given to %s, but is %q %s", l.Addr, o, m[l.Addr.String()], reserved(p, l.Addr))
		}
		m[l.Addr.String()] = o.ContainerID + "\r\n" + o.IfName
	}
}

func (m model) del(o netstate.Owner) {
	for _, match := range []string{o.ContainerID + "\r\n" + o.IfName, o.ContainerID} {
		found := false
		for name, content := range m {
			if content == match {
				delete(m, name)
				found = true
			}
		}
		if found {
			return
		}
	}
}

func (m model) collect(t *testing.T, s *Store, p netstate.Pool, valid netstate.Owner) {
	t.Helper()
	if _, err := s.Collect(t.Context(), p, []netstate.Owner{valid, owner("ref")}, false); err != nil {
		t.Fatal(err)
	}
	for name, content := range m {
		if content != valid.ContainerID+"\r\n"+valid.IfName && content != valid.ContainerID && content != "ref" {
			delete(m, name)
		}
	}
}
