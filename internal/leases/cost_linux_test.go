package leases

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// TestCostDoesNotGrow counts how often an ADD and a DEL open something in the network's folder, or list it.
func TestCostDoesNotGrow(t *testing.T) {
	opened := func(n int) int {
		s, p := newStore(t, nil), filled(t, n)
		del(t, s, p, "makes the index")
		watch := watchOpens(t, p)
		add(t, s, p, "c")
		del(t, s, p, "c")
		return watch()
	}
	few, many := opened(10), opened(3000)
	if few != many || few == 0 {
		t.Errorf("with 10 leases %d opens, with 3000 %d", few, many)
	}
}

// watchOpens counts, when what it returns is called, how often the folder and what is in it was opened since.
func watchOpens(t *testing.T, p netstate.Pool) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(p.Dir, p.Network), unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return func() int {
		count := 0
		buf := make([]byte, 1<<16)
		for {
			n, err := unix.Read(fd, buf)
			if err == unix.EAGAIN {
				return count
			}
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < n; count++ {
				at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[at+12:]))
			}
		}
	}
}
