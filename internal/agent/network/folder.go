package network

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// folder is a folder of configurations as it was last whole: the networks of its files, each the last valid one that the file held.
type folder struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex
	files map[string]*libcni.NetworkConfigList // by path
	order []string                             // paths, as a name is looked up
	err   error                                // of the last reading, as a whole
	why   map[string]error                     // paths of files that are not used as they are now
	said  map[string]string                    // what was logged of a path, so that it is logged once
}

// read reads the folder and reports whether its networks changed.
func (f *folder) read() (changed bool) {
	dir, err := libcni.LoadDir(f.dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		// All of it stays as it was.
		f.warn(map[string]error{f.dir: err})
		f.err = err
		return false
	}
	f.err = nil
	files, why := map[string]*libcni.NetworkConfigList{}, map[string]error{}
	var order []string
	for _, n := range dir.Networks {
		files[n.Source] = n
		order = append(order, n.Source)
	}
	for _, i := range dir.Ignored {
		why[i.File] = i.Err
		last := f.files[i.File]
		if last == nil || slices.ContainsFunc(dir.Networks, func(n *libcni.NetworkConfigList) bool { return n.Name == last.Name }) {
			continue
		}
		if _, err := os.Lstat(i.File); errors.Is(err, os.ErrNotExist) {
			continue // a file of a sibling folder that is named, or one that has just gone
		}
		files[i.File] = last
		order = append(order, i.File)
	}
	slices.SortStableFunc(order, byLookup)
	f.warn(why)
	changed = !sameNetworks(f.files, files)
	f.files, f.order, f.why = files, order, why
	return changed
}

// warn logs what is wrong with paths, once until it changes.
func (f *folder) warn(why map[string]error) {
	said := map[string]string{}
	for path, err := range why {
		text := err.Error()
		said[path] = text
		if f.said[path] != text {
			f.log.Warn("network configuration is not used as it is now", "path", path, "error", err)
		}
	}
	f.said = said
}

// byLookup sorts as libcni.Dir does: lists first, then single plugins, each by name.
func byLookup(a, b string) int {
	single := func(path string) int {
		if filepath.Ext(path) == ".conflist" {
			return 0
		}
		return 1
	}
	if d := single(a) - single(b); d != 0 {
		return d
	}
	return strings.Compare(filepath.Base(a), filepath.Base(b))
}

func sameNetworks(a, b map[string]*libcni.NetworkConfigList) bool {
	if len(a) != len(b) {
		return false
	}
	for path, n := range a {
		if b[path] == nil || string(b[path].Bytes) != string(n.Bytes) {
			return false
		}
	}
	return true
}

// networks returns the networks, the default one first.
func (f *folder) networks() []*libcni.NetworkConfigList {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*libcni.NetworkConfigList, 0, len(f.order))
	for _, path := range f.order {
		list = append(list, f.files[path])
	}
	// The default is that of the first file by name, whatever its ending.
	slices.SortStableFunc(list, func(a, b *libcni.NetworkConfigList) int {
		return strings.Compare(filepath.Base(a.Source), filepath.Base(b.Source))
	})
	return list
}

// defaultNetwork is the network that every pod is attached to.
func (f *folder) defaultNetwork() (*libcni.NetworkConfigList, error) {
	list := f.networks()
	if len(list) == 0 {
		return nil, f.missing("")
	}
	return list[0], nil
}

// network returns a network by name.
func (f *folder) network(name string) (*libcni.NetworkConfigList, error) {
	for _, n := range f.networks() {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, f.missing(name)
}

// missing is the error for a network that isn't configured, or for none at all, with the files that are not used, since it may be
// in one of them.
func (f *folder) missing(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := "no network is configured in " + f.dir
	if name != "" {
		what = fmt.Sprintf("no network %q is configured in %s", name, f.dir)
	}
	if f.err != nil {
		return cni.Errorf(cni.CodeNotAvailable, "%s: %w", what, f.err)
	}
	var reasons []string
	for path, err := range f.why {
		reasons = append(reasons, libcni.IgnoredFile{File: path, Err: err}.String())
	}
	slices.Sort(reasons)
	if len(reasons) > 0 {
		return cni.Errorf(cni.CodeNotAvailable, "%s; not used: %s", what, strings.Join(reasons, "; "))
	}
	return cni.Errorf(cni.CodeNotAvailable, "%s", what).WithHint("put a .conflist file there")
}
