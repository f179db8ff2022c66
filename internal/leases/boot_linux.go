package leases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"time"
)

// settle takes away the leases that an earlier boot left, if this is the first use of the
// folder in this boot, and brings back those of living containers if the folder was lost. It runs
// again if another folder stands in the old one's place.
func (f *folder) settle(ctx context.Context) error {
	if f.how != forLook && f.meta.fd < 0 {
		return nil
	}
	id := ""
	if f.net.fd >= 0 {
		var err error
		if id, err = f.net.identity(); err != nil {
			return err
		}
	}
	boot, err := f.boot()
	if err != nil {
		return err
	}
	used := boot + " " + id + "\n"
	if f.meta.fd >= 0 {
		if was, _, err := f.meta.read("boot_id", 128); err == nil && string(was) == used {
			f.openIndex()
			return nil
		}
	}
	files, _, err := f.walk(ctx)
	if err != nil {
		return err
	}
	records := readRecords(f.cfg.StateDir, f.cfg.Log)
	alive := f.cfg.Alive
	if alive == nil {
		alive = func(id string) bool { return records.alive(id, f.cfg.BootID) }
	}
	owned, err := f.reclaim(ctx, files, alive)
	if err != nil {
		return err
	}
	if owned == 0 {
		f.restore(ctx, records, alive)
	}
	if f.how == forLook || (owned == 0 && len(f.pool.Sets) == 0) {
		return nil // without ranges nothing could be brought back: that is left to the next ADD
	}
	if err := f.replace("boot_id", used); err != nil {
		// The next operation does this again.
		f.cfg.Log.WarnContext(ctx, "boot id not kept", "err", err)
	}
	return nil
}

// reclaim removes the leases that are older than this boot and whose container is not
// alive, and returns how many leases are left.
func (f *folder) reclaim(ctx context.Context, files []lease, alive func(string) bool) (int, error) {
	var boot time.Time
	owned := 0
	lives := make(map[string]bool)
	for _, l := range files {
		if l.holder == (holder{}) {
			continue
		}
		owned++
		if boot.IsZero() {
			var err error
			if boot, err = f.bootTime(); err != nil {
				return 0, err
			}
		}
		if !l.made.Before(boot) {
			continue
		}
		living, asked := lives[l.holder.id]
		if !asked {
			living = alive(l.holder.id)
			lives[l.holder.id] = living
		}
		if living {
			continue
		}
		if f.how == forLook {
			f.setVoid(l.addr)
		} else if err := f.drop(l.addr); err != nil {
			f.cfg.Log.WarnContext(ctx, "lease of an earlier boot not removed", "err", err)
			continue
		} else {
			f.cfg.Log.InfoContext(ctx, "lease of an earlier boot removed", "file", f.net.join(l.addr.String()), "owner", l.holder.String())
			f.freed = append(f.freed, l)
		}
		owned--
	}
	return owned, nil
}

// boot names this boot. By its time alone it is named anew when the clock is set: leases are then looked through once more.
func (f *folder) boot() (string, error) {
	if f.cfg.BootID != "" {
		return f.cfg.BootID, nil
	}
	at, err := f.bootTime()
	return strconv.FormatInt(at.Unix(), 10), err
}

func (f *folder) bootTime() (time.Time, error) {
	if !f.cfg.BootTime.IsZero() {
		return f.cfg.BootTime, nil
	}
	return kernelBootTime()
}

func (f *folder) setVoid(a netip.Addr) {
	if f.void == nil {
		f.void = make(map[netip.Addr]bool)
	}
	f.void[a] = true
}

// restore writes the leases of living containers of this network into a folder that holds none:
// it was removed or moved while they ran, and their addresses would be given out again.
func (f *folder) restore(ctx context.Context, records records, alive func(string) bool) {
	for _, r := range records.network(f.pool.Network) {
		h := holder{id: r.ContainerID, ifName: r.IfName}
		var addrs []netip.Addr
		for _, a := range r.addrs() {
			for _, set := range f.pool.Sets {
				if inSet(set, a) {
					addrs = append(addrs, a)
				}
			}
		}
		if len(addrs) == 0 || !h.valid() || !alive(h.id) {
			continue
		}
		if f.how == forLook {
			f.setRestored(h, addrs)
			continue
		}
		if err := f.write(h, addrs); err != nil {
			f.cfg.Log.WarnContext(ctx, "lease of a living container not restored", "owner", h.String(), "err", err)
			continue
		}
		f.cfg.Log.WarnContext(ctx, "lease folder was empty: lease of a living container restored", "folder", f.net.path, "owner", h.String(), "addresses", joinAddrs(addrs))
	}
}

func (f *folder) setRestored(h holder, addrs []netip.Addr) {
	if f.restored == nil {
		f.restored = make(map[netip.Addr]holder)
	}
	for _, a := range addrs {
		f.restored[a] = h
	}
}

// replace writes a file of our own whole or not at all.
func (f *folder) replace(name, content string) error {
	if err := f.meta.remove("swap"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.meta.create("swap", content); err != nil {
		return err
	}
	return f.swapInto(f.meta, name)
}

// swapInto gives the file swap its name, in place of what has it. After an error there is no swap.
func (f *folder) swapInto(to dir, name string) error {
	if err := f.meta.rename("swap", to, name); err != nil {
		return errors.Join(err, f.meta.remove("swap"))
	}
	return nil
}

// kernelBootTime returns when the machine was started, in whole seconds (btime of
// /proc/stat).
func kernelBootTime() (time.Time, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, fmt.Errorf("read boot time: %w", err)
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			sec, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
			if err != nil {
				return time.Time{}, fmt.Errorf("read boot time of /proc/stat: %w", err)
			}
			return time.Unix(sec, 0), nil
		}
	}
	return time.Time{}, errors.New("read boot time: /proc/stat has no btime")
}
