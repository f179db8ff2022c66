package leases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// openIndex opens the index. It is trusted if nobody has changed the network's folder since
// the index agreed with it.
func (f *folder) openIndex() {
	flags := unix.O_RDWR
	if f.how == forLook {
		flags = unix.O_RDONLY
	}
	fd, st, err := f.meta.open("index", flags)
	if err != nil {
		return // made anew by the first who needs it
	}
	if st.Nlink != 1 { // written in place, it would change whatever else bears it
		unix.Close(fd)
		return
	}
	f.index = fd
	buf := make([]byte, headerSize)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		return
	}
	h, ok := parseHeader(buf[:n])
	if !ok {
		return
	}
	f.head = h
	is, err := f.condition()
	f.trusted = err == nil && is == h.condition && is.marked()
}

func (f *folder) condition() (condition, error) {
	st, err := f.net.stat("")
	return condition{inode: st.Ino, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}, err
}

// mark records that the index agrees with the folder as it is.
func (f *folder) mark() error {
	when := unix.NsecToTimespec(f.cfg.Now().Add(-time.Second).UnixNano())
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, when}
	if err := unix.UtimesNanoAt(f.net.fd, ".", times, 0); err != nil {
		return f.net.fault("set time of", "", err)
	}
	var err error
	if f.head.condition, err = f.condition(); err != nil {
		return err
	}
	if !f.head.condition.marked() {
		return f.net.fault("set time of", "", errors.ErrUnsupported)
	}
	return f.writeIndex(f.head.encode(), 0)
}

// writeIndex writes a part of the index in place. A kill in the middle does no harm: until the
// header says so, nobody trusts the rest, and the header fits into one write.
func (f *folder) writeIndex(part []byte, off int64) error {
	n, err := unix.Pwrite(f.index, part, off)
	if err == nil && n < len(part) {
		err = unix.ENOSPC
	}
	return f.meta.fault("write", "index", err)
}

func pageOffset(i int) int64 { return int64(i+1) * pageSize }

func (f *folder) readPage(i int) ([]byte, error) {
	page := make([]byte, pageSize)
	n, err := unix.Pread(f.index, page, pageOffset(i))
	if err == nil && n < pageSize {
		err = io.ErrUnexpectedEOF
	}
	return page, f.meta.fault("read", "index", err)
}

// heldBy returns what h holds, or else what is held under its container ID alone, and under
// which of the two names it was found.
func (f *folder) heldBy(ctx context.Context, h holder) (holder, []lease, error) {
	if h.id == "" {
		return h, nil, nil
	}
	for _, name := range []holder{h, {id: h.id}} {
		files, err := f.find(ctx, name)
		if err != nil || len(files) > 0 {
			return name, files, err
		}
	}
	// One of the files that could not be read may be h's.
	return h, nil, f.unreadable
}

// find returns the leases whose files name h exactly: by the index, or by reading the folder.
func (f *folder) find(ctx context.Context, h holder) ([]lease, error) {
	if f.trusted && f.byOwner == nil {
		files, err := f.follow(h)
		if err == nil {
			return f.withoutVoid(files), nil
		}
		f.cfg.Log.InfoContext(ctx, "lease index is stale", "folder", f.meta.path, "err", err)
	}
	if f.byOwner == nil {
		files, unreadable, err := f.walk(ctx)
		if err != nil {
			return nil, err
		}
		f.byOwner = make(map[holder][]lease)
		for _, l := range files {
			f.byOwner[l.holder] = append(f.byOwner[l.holder], l)
		}
		f.unreadable = unreadable
		f.rebuild(f.byOwner, unreadable == nil)
	}
	return f.withoutVoid(f.byOwner[h]), nil
}

func (f *folder) withoutVoid(files []lease) []lease {
	var left []lease
	for _, l := range files {
		if !f.void[l.addr] {
			left = append(left, l)
		}
	}
	return left
}

// follow reads the leases that the index has for h. An error says that the index is
// wrong.
func (f *folder) follow(h holder) ([]lease, error) {
	key := tableKey(h)
	page, err := f.readPage(pageOf(key, f.head.pages))
	if err != nil {
		return nil, err
	}
	line := lookup(page, key)
	if line == "" {
		return nil, nil
	}
	addrs, ok := splitAddrs(line)
	if !ok {
		return nil, fmt.Errorf("index of %s: %q is no list of addresses", h, line)
	}
	files := make([]lease, 0, len(addrs))
	for _, a := range addrs {
		l, err := f.read(a)
		if err != nil {
			return nil, err
		}
		if l.holder != h {
			return nil, fmt.Errorf("index of %s: %s is not its lease", h, f.net.join(a.String()))
		}
		files = append(files, l)
	}
	return files, nil
}

// setOwner makes the index say that h holds addrs and nothing else. If it can't, the index is
// no longer trusted.
func (f *folder) setOwner(h holder, addrs []netip.Addr) {
	if !f.trusted || f.how == forLook {
		return
	}
	key := tableKey(h)
	i := pageOf(key, f.head.pages)
	page, err := f.readPage(i)
	if err != nil {
		f.distrust(err)
		return
	}
	page, ok := replaceLine(page, key, joinAddrs(addrs))
	if !ok {
		f.trusted = false // the next one makes a larger one
		return
	}
	if err := f.writeIndex(page, pageOffset(i)); err != nil {
		f.distrust(err)
	}
}

func (f *folder) distrust(err error) {
	f.cfg.Log.Warn("lease index not kept", "folder", f.meta.path, "err", err)
	f.trusted = false
}

// rebuild makes the index anew from all leases of the folder. If they are not all, there
// is no index.
func (f *folder) rebuild(byOwner map[holder][]lease, complete bool) {
	f.trusted = false
	if !complete || f.how == forLook || f.meta.fd < 0 {
		return
	}
	lines := make(map[string]string, len(byOwner))
	for h, files := range byOwner {
		if h != (holder{}) {
			lines[tableKey(h)] = joinAddrs(addrsOf(files))
		}
	}
	table, ok := buildTable(lines)
	if !ok {
		return
	}
	f.head.pages = len(table)
	if err := f.writeTable(table); err != nil {
		f.distrust(err)
		return
	}
	f.trusted, f.changed = true, true
}

// writeTable puts a new index in the old one's place. Its header stays empty until the
// folder is marked.
func (f *folder) writeTable(table [][]byte) error {
	all := make([]byte, pageSize, pageSize*(len(table)+1))
	for _, page := range table {
		all = append(all, page...)
	}
	if err := f.replace("index", string(all)); err != nil {
		return err
	}
	f.closeIndex()
	fd, _, err := f.meta.open("index", unix.O_RDWR)
	if err != nil {
		return err
	}
	f.index = fd
	return nil
}

func (f *folder) closeIndex() {
	if f.index >= 0 {
		unix.Close(f.index)
	}
	f.index = -1
}

func spareName(i int) string { return fmt.Sprintf("spare-%d", i) }

// retire takes the lease file of a away and keeps it for another lease. One that is gone is
// success.
func (f *folder) retire(a netip.Addr) error {
	if f.meta.fd < 0 || f.head.spares >= maxSpares {
		return f.drop(a)
	}
	err := f.net.rename(a.String(), f.meta, spareName(f.head.spares+1))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f.head.spares++
	f.changed = true
	return nil
}

// newFile makes the file new, out of a spare one if there is one.
func (f *folder) newFile(content string) error {
	for f.head.spares > 0 {
		name := spareName(f.head.spares)
		f.head.spares--
		if err := f.meta.rename(name, f.meta, "new"); err != nil {
			f.head.spares = 0 // the number is a hint too
			break
		}
		if f.meta.refill("new", content) == nil {
			return nil
		}
		// What is not fit for it, or not a file of ours, goes.
		if err := f.meta.remove("new"); err != nil {
			return err
		}
	}
	return f.meta.create("new", content)
}
