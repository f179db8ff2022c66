package leases

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

func FuzzParseLease(f *testing.F) {
	for _, seed := range []string{"", "c1", "c1\r\neth0", "c1\neth0\n", " c1 \r\n eth0 ", "\x00", "a\r\nb\r\nc", "é\r\nü"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, ok := parseLease(data)
		if !ok {
			if h != (holder{}) {
				t.Errorf("refused, but %q", h)
			}
			return
		}
		if h.id == "" || strings.ContainsAny(h.id+h.ifName, "\r\n\x00") {
			t.Errorf("%q gave %q", data, h)
		}
		if again, ok := parseLease([]byte(h.content())); !ok || again != h {
			t.Errorf("%q is read back as %q", h, again)
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"10.9.0.2", "fd00::2", "FD00::2", "::ffff:10.9.0.2", "fe80::1%eth0", "lock", "10.9.0.02"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if a, ok := parseName(name); ok && (a.String() != name || strings.ContainsAny(name, "/%")) {
			t.Errorf("%q gave %s", name, a)
		}
		if addrs, ok := splitAddrs(name); ok && joinAddrs(addrs) != name {
			t.Errorf("%q gave %v", name, addrs)
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add(header{pages: 16}.encode())
	f.Add(header{pages: 1024, condition: condition{7, -5, 1796064911944549693}, spares: 64}.encode())
	f.Add([]byte("cleat lease index 1 pages 16"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, ok := parseHeader(data); ok && string(h.encode()) != string(data) {
			t.Errorf("%q gave %+v", data, h)
		}
	})
}

// FuzzTable proves that a page keeps every line but the one that is replaced, whatever stands in it.
func FuzzTable(f *testing.F) {
	f.Add([]byte(""), "k", "10.9.0.2")
	f.Add([]byte(tableKey(holder{"c1", "eth0"})+" 10.9.0.2,fd00::2\n\n\n"), "c1", "")
	f.Add([]byte("no line"), "c1", "10.9.0.2")
	f.Fuzz(func(t *testing.T, page []byte, id, addrs string) {
		if strings.Contains(addrs, "\n") || len(page) > pageSize {
			return
		}
		key, other := tableKey(holder{id: id}), tableKey(holder{id: id, ifName: "other"})
		before := lookup(page, other)
		out, ok := replaceLine(page, key, addrs)
		if !ok {
			return
		}
		if len(out) != pageSize || lookup(out, key) != addrs {
			t.Errorf("page of %d bytes says %q, want %q", len(out), lookup(out, key), addrs)
		}
		if got := lookup(out, other); got != before {
			t.Errorf("another line says %q, before %q", got, before)
		}
	})
}

// FuzzRoundRobin compares the walk over two ranges with a plain list.
func FuzzRoundRobin(f *testing.F) {
	f.Add([]byte{10, 0, 0, 5}, uint8(3), []byte{10, 0, 1, 250}, uint8(5), []byte{10, 0, 0, 6})
	f.Add([]byte{255, 255, 255, 250}, uint8(9), []byte{0, 0, 0, 0}, uint8(1), []byte{255, 255, 255, 255})
	f.Add(make([]byte, 16), uint8(2), []byte("ffffffffffffffff"), uint8(0), []byte{})
	f.Fuzz(func(t *testing.T, start1 []byte, n1 uint8, start2 []byte, n2 uint8, lastRaw []byte) {
		var (
			set  []netstate.Range
			want []netip.Addr
		)
		for _, r := range []struct {
			start []byte
			n     uint8
		}{{start1, n1}, {start2, n2}} {
			a, ok := netip.AddrFromSlice(r.start)
			if !ok {
				return
			}
			end := a
			want = append(want, a)
			for range r.n {
				if !end.Next().IsValid() {
					break
				}
				end = end.Next()
				want = append(want, end)
			}
			set = append(set, netstate.Range{Start: a, End: end})
		}
		if inRange(set[0], set[1].Start) || inRange(set[1], set[0].Start) {
			return // ranges don't overlap
		}
		last, _ := netip.AddrFromSlice(lastRaw)
		for i, a := range want {
			if a == last {
				want = append(append([]netip.Addr{}, want[i+1:]...), want[:i+1]...)
				break
			}
		}
		var got []netip.Addr
		for a := range roundRobin(set, last) {
			if got = append(got, a); len(got) > len(want) {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after %s got %v, want %v", last, got, want)
		}
	})
}

func TestBuildTable(t *testing.T) {
	lines := make(map[string]string)
	for i := range 20_000 {
		lines[tableKey(holder{id: fmt.Sprint("c", i), ifName: "eth0"})] = fmt.Sprintf("10.9.%d.%d", i/256, i%256)
	}
	table, ok := buildTable(lines)
	if !ok {
		t.Fatal("no table")
	}
	for key, want := range lines {
		if got := lookup(table[pageOf(key, len(table))], key); got != want {
			t.Fatalf("%s: got %q, want %q", key, got, want)
		}
	}
	if _, ok := buildTable(map[string]string{hex.EncodeToString(make([]byte, 16)): strings.Repeat("a", pageSize)}); ok {
		t.Error("a line longer than a page fits")
	}
}
