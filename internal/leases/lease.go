package leases

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLease is the longest lease file in bytes that is one: two file names and a line break.
const maxLease = 2*255 + 2

// holder is whom a lease file names. ifName is empty in the files of the reference's first
// versions, which hold the container ID alone.
type holder struct {
	id, ifName string
}

// String gives container/interface.
func (h holder) String() string {
	if h.ifName == "" {
		return h.id
	}
	return h.id + "/" + h.ifName
}

// content is the text of the holder's lease file.
func (h holder) content() string { return h.id + "\r\n" + h.ifName }

// valid reports whether the holder's lease file would be read back as the holder.
func (h holder) valid() bool {
	got, ok := parseLease([]byte(h.content()))
	return ok && got == h && h.ifName != ""
}

// parseLease reads a lease file. What is empty, too long or no text, as a full disk or a power
// cut leaves it, names nobody.
func parseLease(data []byte) (holder, bool) {
	if len(data) > maxLease || !utf8.Valid(data) {
		return holder{}, false
	}
	id, ifName, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	h := holder{id: strings.TrimSpace(id), ifName: strings.TrimSpace(ifName)}
	if h.id == "" || strings.ContainsFunc(h.id+h.ifName, unicode.IsControl) {
		return holder{}, false
	}
	return h, true
}

// parseName reads the name of a lease file: an address as it is written canonically, without a
// zone. Other names are not leases.
func parseName(name string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(name)
	if err != nil || a.Zone() != "" || a.Is4In6() || a.String() != name {
		return netip.Addr{}, false
	}
	return a, true
}

// joinAddrs gives addresses as a line of the index has them; splitAddrs reads them back.
func joinAddrs(addrs []netip.Addr) string {
	var b strings.Builder
	for i, a := range addrs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(a.String())
	}
	return b.String()
}

func splitAddrs(s string) ([]netip.Addr, bool) {
	var addrs []netip.Addr
	for name := range strings.SplitSeq(s, ",") {
		a, ok := parseName(name)
		if !ok {
			return nil, false
		}
		addrs = append(addrs, a)
	}
	return addrs, true
}
