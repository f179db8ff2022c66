package leases

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// BenchmarkAddDel measures one ADD and one DEL in a folder that holds n other leases.
func BenchmarkAddDel(b *testing.B) {
	for _, n := range []int{10, 50_000} {
		b.Run(fmt.Sprintf("leases=%d", n), func(b *testing.B) {
			s := newStore(b, nil)
			p := filled(b, n)
			o := owner("bench")
			if err := s.Release(b.Context(), p, o); err != nil { // makes the index
				b.Fatal(err)
			}
			syncDisk(b, p) // else the files made above are written while we measure
			b.ResetTimer()
			for b.Loop() {
				if _, err := s.Reserve(b.Context(), p, o, false); err != nil {
					b.Fatal(err)
				}
				if err := s.Release(b.Context(), p, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// filled returns a pool in whose folder the reference has written n leases.
func filled(t testing.TB, n int) netstate.Pool {
	t.Helper()
	p := poolOf(t, "10.0.0.0/8 10.0.0.2-10.255.255.254 10.0.0.1")
	dir := filepath.Join(p.Dir, p.Network)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := p.Sets[0][0].Start
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, a.String()), fmt.Appendf(nil, "c%d\r\neth0", i), 0o600); err != nil {
			t.Fatal(err)
		}
		a = a.Next()
	}
	put(t, p, lastName(0), a.String())
	return p
}

func syncDisk(t testing.TB, p netstate.Pool) {
	t.Helper()
	d, err := openDir(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := unix.Syncfs(d.fd); err != nil {
		t.Fatal(err)
	}
}
