package lint

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"

	"github.com/cleat-cni/cleat/cni"
)

// File is a file as it was found.
type File struct {
	Path string
	Data []byte
	Mode fs.FileMode
	// Err is why Data could not be read.
	Err   error
	Given bool // it was named itself, and is judged whatever its ending
	// Network is set for a file of the folder beside the network's file that has a network's name: a plugin's configuration.
	Network string
}

// Folder is what lies together, so that a runtime sees all of it.
type Folder struct {
	Path  string
	Mode  fs.FileMode
	Whole bool // all of its files are here: it was given as a folder
	Files []File
}

// document is a file whose text was read.
type document struct {
	File
	root   *cni.Tree // nil if it is no JSON, even mended
	faults []fault   // of its text
	starts []int     // of its lines
	spoilt map[*cni.Tree]bool
}

func newDocument(f File) *document {
	d := &document{File: f, starts: []int{0}, spoilt: map[*cni.Tree]bool{}}
	for i, c := range f.Data {
		if c == '\n' {
			d.starts = append(d.starts, i+1)
		}
	}
	if f.Err == nil {
		d.root, d.faults = parse(f.Data)
	}
	return d
}

// name is the last part of the path.
func (d *document) name() string { return filepath.Base(d.Path) }

// isConfig reports whether runtimes read a file of this name.
func (d *document) isConfig() bool {
	name := d.name()
	return name[0] != '.' && name[0] != '#' && slices.Contains(endings(), filepath.Ext(name))
}

// isJudged reports whether the file's content is a configuration's, or should be.
func (d *document) isJudged() bool { return d.isConfig() || d.Given || d.Network != "" }

// endings are those of the names of configurations.
func endings() []string { return []string{".conflist", ".conf", ".json"} }

// position gives line and column of an offset, from 1.
func (d *document) position(at int) (line, column int) {
	line = sort.Search(len(d.starts), func(i int) bool { return d.starts[i] > at })
	return line, at - d.starts[line-1] + 1
}

// line is the text of a line, from 1, without its end.
func (d *document) line(n int) string {
	end := len(d.Data)
	if n < len(d.starts) {
		end = d.starts[n]
	}
	return string(bytes.TrimRight(d.Data[d.starts[n-1]:end], "\r\n"))
}

// spoil keeps a value that is an error from the plugins.
func (d *document) spoil(t *cni.Tree, severity Severity) {
	if severity == Error {
		d.spoilt[t] = true
	}
}

// member is the member of an object whose key is name, else the one whose key differs from it in case alone; nil without one.
func member(t *cni.Tree, name string) *cni.Tree {
	if m := t.Get(name); m != nil {
		return m
	}
	if t == nil || !t.IsObject() {
		return nil
	}
	for _, m := range t.Children {
		if sameButCase(m.Key, name) {
			return m
		}
	}
	return nil
}
