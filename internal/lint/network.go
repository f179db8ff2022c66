package lint

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/schema"
	"github.com/cleat-cni/cleat/planned"
)

// network is a network's file as far as it can be read: what is missing or of another type is empty.
type network struct {
	doc     *document
	root    *cni.Tree
	single  bool // the file holds one plugin, not a list
	name    string
	version string // the one that plugins are called in
	steps   []*step
}

// step is one plugin of a network: an element of its list, or of a file in the folder of its name.
type step struct {
	section
	net  *network
	ipam section // its node is nil without an ipam section
	// What a rehearsal tells: see rehearse.go.
	rehearsed bool
	idle      bool // it does nothing but what a runtime asks for
	plan      planned.Plan
	pool      planned.Allocation
}

// section is an object that belongs to a plugin.
type section struct {
	doc     *document
	node    *cni.Tree
	typ     string
	typAt   *cni.Tree // the value of type; nil if it is no string
	def     planned.Definition
	known   bool          // the plugin is built in
	keys    *schema.Value // what the specification says, if the plugin is not known
	usesOwn bool          // keys are the plugin's own
}

// run is one pass of all rules over a folder.
type run struct {
	*Linter
	folder   Folder
	docs     []*document
	networks []*network
	node     facts
	rule     string // that runs
	findings []*Finding
}

// read makes networks of the files of a folder.
func (l *Linter) read(f Folder) *run {
	r := &run{Linter: l, folder: f}
	byName := map[string]*network{}
	files := slices.SortedFunc(slices.Values(f.Files), func(a, b File) int { return comparePaths(a.Path, b.Path) })
	for _, file := range files {
		d := newDocument(file)
		r.docs = append(r.docs, d)
		if d.root == nil || !d.root.IsObject() || d.Network != "" || !d.isJudged() {
			continue
		}
		if member(d.root, "plugins") == nil && member(d.root, "type") == nil && member(d.root, "name") == nil {
			continue // L003
		}
		n := l.network(d)
		r.networks = append(r.networks, n)
		if byName[n.name] == nil {
			byName[n.name] = n
		}
	}
	r.docs = slices.DeleteFunc(r.docs, func(d *document) bool { return d.Network != "" && byName[d.Network] == nil })
	for _, d := range r.docs {
		n := byName[d.Network]
		if d.Network == "" || n == nil || d.root == nil || !d.root.IsObject() || n.onlyInlined() {
			continue
		}
		n.steps = append(n.steps, l.step(n, d, d.root))
	}
	return r
}

// network reads a network's file.
func (l *Linter) network(d *document) *network {
	n := &network{doc: d, root: d.root}
	n.name = textOf(d.root, "name")
	list := member(d.root, "plugins")
	n.single = list == nil && member(d.root, "type") != nil
	n.version = n.effective()
	if n.single {
		n.steps = []*step{l.step(n, d, d.root)}
		return n
	}
	if list == nil || !list.IsList() {
		return n
	}
	for _, item := range list.Children {
		if item.IsObject() {
			n.steps = append(n.steps, l.step(n, d, item))
		}
	}
	return n
}

// effective is the version that a runtime takes of those that are written; 0.1.0 if none is.
func (n *network) effective() string {
	var versions []string
	if list := member(n.root, "cniVersions"); list != nil && list.IsList() {
		for _, v := range list.Children {
			if text, ok := v.Text(); ok {
				versions = append(versions, text)
			}
		}
	}
	written := textOf(n.root, "cniVersion")
	if v, err := cni.Negotiate(written, versions); err == nil {
		return v
	}
	return cmp.Or(written, "0.1.0")
}

// onlyInlined reports whether plugins of the network's own folder are left out.
func (n *network) onlyInlined() bool {
	flag := member(n.root, "loadOnlyInlinedPlugins")
	return flag != nil && strings.EqualFold(strings.Trim(string(flag.Raw), `"`), "true")
}

func (l *Linter) step(n *network, d *document, node *cni.Tree) *step {
	s := &step{net: n, section: l.section(d, node, l.book.Plugin)}
	if s.keys == nil {
		s.keys = l.book.Foreign()
	}
	if ipam := member(node, "ipam"); ipam != nil && ipam.IsObject() {
		s.ipam = l.section(d, ipam, l.book.IPAM)
	}
	return s
}

// section reads what plugin an object belongs to.
func (l *Linter) section(d *document, node *cni.Tree, keys func(string) (*schema.Value, bool)) section {
	s := section{doc: d, node: node}
	if t := member(node, "type"); t != nil {
		if text, ok := t.Text(); ok {
			s.typ, s.typAt = text, t
		}
	}
	s.def, s.known = l.defs[s.typ]
	s.keys, s.usesOwn = keys(s.typ)
	return s
}

// steps are the plugins of all networks.
func (r *run) steps() iter.Seq[*step] {
	return func(yield func(*step) bool) {
		for _, n := range r.networks {
			for _, s := range n.steps {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// sections are the objects of plugins and those of their IPAM plugins, each with the step it belongs to.
func (r *run) sections() iter.Seq2[*step, *section] {
	return func(yield func(*step, *section) bool) {
		for s := range r.steps() {
			if !yield(s, &s.section) || s.ipam.node != nil && !yield(s, &s.ipam) {
				return
			}
		}
	}
}

// textOf is the string under a key, "" without one.
func textOf(t *cni.Tree, key string) string {
	m := member(t, key)
	if m == nil {
		return ""
	}
	text, _ := m.Text()
	return text
}

// sameButCase reports whether two names differ in no more than case.
func sameButCase(a, b string) bool { return strings.EqualFold(a, b) }
