package leases

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// The index is one file: a header of a page, and a hash table of pages whose lines are
// "<key> <address>,<address>\n", filled up with newlines. Finding, adding and removing an owner
// costs one page, however many there are. It is text, so that people can read it.
const (
	pageSize   = 4096
	headerSize = 256
	minPages   = 16
	maxPages   = 1 << 20
)

// maxSpares is how many files of leases that ended are kept for the next ones. On ext4 a
// new file costs up to 2 ms where many were removed in the last minutes, since the file system
// leaves their inodes alone for that long and looks past each of them; a file that is
// used again costs nothing.
const maxSpares = 64

// tableKey is the holder's key in the index: 32 hex digits.
func tableKey(h holder) string {
	sum := sha256.Sum256([]byte(h.id + "\x00" + h.ifName))
	return hex.EncodeToString(sum[:16])
}

// pageOf says in which of so many pages (a power of two) a key's line stands, from 0.
func pageOf(key string, pages int) int {
	// A key that is not hexadecimal is never looked for: it would only stand in page 0.
	raw, _ := hex.DecodeString(key[:8])
	if len(raw) != 4 {
		return 0
	}
	return int(binary.BigEndian.Uint32(raw)) & (pages - 1)
}

// findLine returns where key's line begins and ends in page, its newline included; both are 0 if
// there is none.
func findLine(page []byte, key string) (from, to int) {
	for at := 0; ; at = to {
		from = bytes.Index(page[at:], []byte(key+" "))
		if from < 0 {
			return 0, 0
		}
		from += at
		to = len(page)
		if end := bytes.IndexByte(page[from:], '\n'); end >= 0 {
			to = from + end + 1
		}
		if from == 0 || page[from-1] == '\n' {
			return from, to
		}
	}
}

// lookup returns the addresses of key's line in page, "" if there is none.
func lookup(page []byte, key string) string {
	from, to := findLine(page, key)
	if to == 0 {
		return ""
	}
	return string(bytes.TrimSuffix(page[from+len(key)+1:to], []byte("\n")))
}

// replaceLine returns page with key's line saying addrs, or without it if addrs is empty. It is
// false if that doesn't fit.
func replaceLine(page []byte, key, addrs string) ([]byte, bool) {
	from, to := findLine(page, key)
	out := make([]byte, 0, pageSize+len(key)+len(addrs)+2)
	out = append(out, page[:from]...)
	out = append(out, page[to:]...)
	out = bytes.TrimRight(out, "\n")
	if len(out) > 0 {
		out = append(out, '\n')
	}
	if addrs != "" {
		out = append(out, key+" "+addrs+"\n"...)
	}
	if len(out) > pageSize {
		return nil, false
	}
	return padded(out), true
}

func padded(page []byte) []byte {
	return append(page, bytes.Repeat([]byte("\n"), pageSize-len(page))...)
}

// buildTable lays out lines by key in pages that are half full at most on average. It
// is false if they fit in no table.
func buildTable(lines map[string]string) ([][]byte, bool) {
	size := 0
	for key, addrs := range lines {
		size += len(key) + len(addrs) + 2
	}
	pages := minPages
	for pages*pageSize < 2*size {
		pages *= 2
	}
	for ; pages <= maxPages; pages *= 2 {
		if table, ok := layOut(lines, pages); ok {
			return table, true
		}
		if pages > 16*(len(lines)+minPages) {
			break // a single line is too long
		}
	}
	return nil, false
}

func layOut(lines map[string]string, pages int) ([][]byte, bool) {
	table := make([][]byte, pages)
	for key, addrs := range lines {
		i := pageOf(key, pages)
		table[i] = append(table[i], key+" "+addrs+"\n"...)
		if len(table[i]) > pageSize {
			return nil, false
		}
	}
	for i, page := range table {
		table[i] = padded(page)
	}
	return table, true
}

// header is what the first page of the index begins with.
type header struct {
	pages     int
	condition condition
	spares    int // how many spare files there are, from spare-1
}

// condition is in what condition the network's folder was when the index agreed with it: inode,
// and modification and change time in nanoseconds.
type condition struct {
	inode        uint64
	mtime, ctime int64
}

// marked reports whether this can be the condition of a folder that was marked: whoever makes or removes a
// file in a folder sets both of its times to the same value, and marking it sets one. So no
// change leads back to a marked condition, however coarse the clock of the file system is.
func (c condition) marked() bool { return c.mtime != c.ctime }

const headerFormat = "cleat lease index 1 pages %d folder %d modified %d changed %d spares %d\n"

func (h header) encode() []byte {
	text := fmt.Appendf(nil, headerFormat, h.pages, h.condition.inode, h.condition.mtime, h.condition.ctime, h.spares)
	return append(text, bytes.Repeat([]byte("\n"), headerSize-len(text))...)
}

// parseHeader reads a header; it is false unless encode could have written it.
func parseHeader(data []byte) (header, bool) {
	line, _, _ := strings.Cut(string(data), "\n")
	words := strings.Fields(line)
	if len(words) != len(strings.Fields(headerFormat)) {
		return header{}, false
	}
	number := func(i int) int64 { // what is none makes another header than the one that was read
		n, _ := strconv.ParseInt(words[i], 10, 64)
		return n
	}
	inode, _ := strconv.ParseUint(words[7], 10, 64)
	h := header{
		pages: int(number(5)), spares: int(number(13)),
		condition: condition{inode: inode, mtime: number(9), ctime: number(11)},
	}
	ok := h.pages >= minPages && h.pages <= maxPages && h.pages&(h.pages-1) == 0 &&
		h.spares >= 0 && h.spares <= maxSpares && bytes.Equal(h.encode(), data)
	return h, ok
}
