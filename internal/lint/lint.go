// Package lint judges network configurations before anything runs: it says every problem of a folder's files at once, each
// with its place, what is wrong, and what to write.
//
// A [Rule] is a function over what was read, in a file of its own. What a plugin may be told comes out of the definitions of the plugins
// themselves: their schemas say which keys there are, and their own parse and plan judge the values, so a plugin that is added is
// judged without a word here. Plugins that are not built in are held to the specification alone. What depends on the machine, [Node]
// answers; it is never more than a warning.
package lint

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/internal/schema"
	"github.com/cleat-cni/cleat/planned"
)

// DefaultMaxPods is how many pods a kubelet runs unless it is told otherwise.
const DefaultMaxPods = 110

// Config configures a [Linter].
type Config struct {
	Plugins []planned.Definition // required: what is built in
	Node    Node                 // the machine; nil passes over what depends on it
	MaxPods int                  // how many pods a network has to have addresses for; default [DefaultMaxPods], and then it is no more than advice
}

// Linter judges configurations. It is safe for concurrent use.
type Linter struct {
	cfg  Config
	book *schema.Book
	defs map[string]planned.Definition
}

// New returns a linter.
func New(cfg Config) (*Linter, error) {
	book, err := schema.NewBook(cfg.Plugins)
	if err != nil {
		return nil, err
	}
	l := &Linter{cfg: cfg, book: book, defs: map[string]planned.Definition{}}
	for _, d := range cfg.Plugins {
		l.defs[d.Info.Type] = d
	}
	return l, nil
}

// Check judges folders, each by itself, and returns what it found in the order of files and places. Without a finding of severity
// [Error] the configurations are fit for use, as far as they tell. The error is ctx's.
func (l *Linter) Check(ctx context.Context, folders []Folder) ([]Finding, error) {
	var all []Finding
	for _, f := range folders {
		r := l.read(f)
		if err := r.ask(ctx, l.cfg.Node); err != nil {
			return nil, err
		}
		for _, rule := range Rules() {
			r.rule = rule.ID
			rule.check(r)
		}
		for _, f := range r.findings {
			all = append(all, *f)
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(comparePaths(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Rule, b.Rule))
	})
	return all, nil
}

// comparePaths puts the files of a folder before those of the folders in it.
func comparePaths(a, b string) int {
	return cmp.Or(strings.Compare(filepath.Dir(a), filepath.Dir(b)), strings.Compare(filepath.Base(a), filepath.Base(b)))
}

// printable makes one line of what a file or a plugin says.
func printable(s string) string { return output.Printable(s) }
