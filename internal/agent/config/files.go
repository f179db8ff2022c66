package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/manifest"
	"github.com/cleat-cni/cleat/internal/ownfile"
)

// errBeingWritten is that a file can't be trusted yet: half of a YAML text may well be a whole one.
var errBeingWritten = errors.New("somebody has it open for writing")

// patience is how long a file may be open for writing before it is read nevertheless.
const patience = 5 * time.Second

// entry is what is known of a file.
type entry struct {
	sum  [sha256.Size]byte // of what was read last
	pods []*v1.Pod         // of what was read last without mistake
	err  error             // of the last reading
	busy time.Time         // since when somebody has it open for writing; zero if nobody has
	// early: it was there at the first look, and has not been read without mistake since. Its pods may run, from an agent before.
	early bool
}

// files are the files of the configured paths and their pods. It is not for concurrent use.
type files struct {
	paths   []string
	node    string
	entries map[string]map[string]*entry // by configured path and file
	listed  map[string]error             // why a configured path can't be listed
}

func newFiles(paths []string, node string) *files {
	return &files{paths: paths, node: node, entries: map[string]map[string]*entry{}, listed: map[string]error{}}
}

// read looks at all files. It reports whether all paths have been listed at least once, since until then the pods are not all of them,
// and whether the pods may differ from those of before.
func (s *files) read(now time.Time) (whole, changed bool) {
	whole = true
	for _, path := range s.paths {
		names, err := list(path)
		s.listed[path] = err
		if err != nil {
			if s.entries[path] == nil {
				whole = false
			}
			continue // what was there before stays
		}
		next := map[string]*entry{}
		for _, name := range names {
			e := s.entries[path][name]
			if e == nil {
				e = &entry{early: s.entries[path] == nil}
			}
			sum := e.sum
			if gone := s.refresh(e, name, now); !gone {
				next[name] = e
				changed = changed || e.sum != sum
			}
		}
		changed = changed || len(next) != len(s.entries[path]) || s.entries[path] == nil
		s.entries[path] = next
	}
	return whole, changed
}

// list returns the files of a path in order: itself if it is one, or those of the folder. There are none in a folder that
// isn't there.
func list(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	if ownfile.OpenToAll(info) {
		return nil, fmt.Errorf("list manifests: everybody can write to %s, and a pod runs as root: chmod o-w", path)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !ignored(e.Name()) {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	return names, nil
}

// ignored reports whether a name is one that editors give to copies, or is hidden.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~")
}

// refresh reads a file again. It reports whether it is gone, or is no file but a folder.
func (s *files) refresh(e *entry, name string, now time.Time) (gone bool) {
	data, err := contents(name, manifest.Source{Kind: manifest.File}.MaxBytes(), !e.busy.IsZero() && now.Sub(e.busy) >= patience)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errFolder):
		return true
	case errors.Is(err, errBeingWritten):
		if e.busy.IsZero() {
			e.busy = now
		}
		return false
	}
	e.busy = time.Time{}
	if err != nil {
		e.err = err
		e.sum = [sha256.Size]byte{} // so that it is read once it can be
		return false
	}
	sum := sha256.Sum256(data)
	if sum == e.sum {
		return false
	}
	e.sum = sum
	pods, err := manifest.Parse(manifest.Source{Kind: manifest.File, Name: name, Node: s.node}, data)
	if e.err = err; err == nil {
		e.pods, e.early = pods, false
	}
	return false
}

var errFolder = errors.New("is a folder")

// contents returns what is in a file, up to one byte more than is allowed.
func contents(name string, limit int, evenIfBusy bool) ([]byte, error) {
	info, err := os.Stat(name) // before it is opened: opening a pipe would wait
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at manifest: %w", err)
	case info.IsDir():
		return nil, errFolder
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("look at manifest: %s is no regular file", name)
	case ownfile.OpenToAll(info):
		return nil, fmt.Errorf("look at manifest: everybody can write to %s, and a pod runs as root: chmod o-w", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	defer f.Close()
	if !evenIfBusy && beingWritten(f) {
		return nil, errBeingWritten
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(f, int64(limit)+1)); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return b.Bytes(), nil
}

// busy reports whether a file is being written.
func (s *files) busy() bool {
	for _, list := range s.entries {
		for _, e := range list {
			if !e.busy.IsZero() {
				return true
			}
		}
	}
	return false
}

// unknown reports whether there is a file whose pods are not known, though an agent before this one may have known them.
func (s *files) unknown() bool {
	for _, list := range s.entries {
		for _, e := range list {
			if e.early {
				return true
			}
		}
	}
	return false
}

// pods returns the pods of all files, in the order of the paths and of the files' names. A file that two paths lead to is taken once.
func (s *files) pods() []*v1.Pod {
	var list []*v1.Pod
	seen := map[string]bool{}
	for _, path := range s.paths {
		for _, name := range slices.Sorted(maps.Keys(s.entries[path])) {
			if !seen[name] {
				list = append(list, s.entries[path][name].pods...)
			}
			seen[name] = true
		}
	}
	return list
}

// problems returns what is wrong, nil if nothing is, of each path and file.
func (s *files) problems() map[string]error {
	all := map[string]error{}
	maps.Copy(all, s.listed)
	for _, list := range s.entries {
		for name, e := range list {
			all[name] = e.err
		}
	}
	return all
}
