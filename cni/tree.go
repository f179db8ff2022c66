package cni

import "encoding/json"

// Tree is a JSON value with the place where it stands, for tools that have to point at it. Unlike an [Object] it keeps
// a key that stands twice.
type Tree struct {
	Start, End int // the value is text[Start:End]
	// Of a member of an object: its key, and where that stands, quotes included. Else KeyEnd is 0.
	Key              string
	KeyStart, KeyEnd int
	Raw              json.RawMessage // the value as it is written
	Children         []*Tree         // members or elements, in order
	Parent           *Tree           // nil for the whole
}

// ParseTree reads one JSON value, of any type. What [ParseObject] refuses as text is a [*SyntaxError] here too.
func ParseTree(text []byte) (*Tree, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	b := &treeBuilder{s: &scanner{text: text}}
	b.s.inner = b.value
	b.s.space()
	if err := b.value(); err != nil {
		return nil, err
	}
	b.s.space()
	if b.s.pos < len(text) {
		return nil, b.s.trailing()
	}
	return b.done, nil
}

// treeBuilder makes a tree while a scanner goes over the text once.
type treeBuilder struct {
	s    *scanner
	done *Tree // the value that was scanned last
}

func (b *treeBuilder) value() error {
	s, t := b.s, &Tree{Start: b.s.pos}
	add := func() *Tree {
		b.done.Parent = t
		t.Children = append(t.Children, b.done)
		return b.done
	}
	var err error
	switch s.peek() {
	case '{':
		err = s.object(func(key string, keyAt, _, _ int) error {
			m := add()
			quoted := &scanner{text: s.text, pos: keyAt}
			m.Key, m.KeyStart = key, keyAt
			err := quoted.quoted() // which has gone well before
			m.KeyEnd = quoted.pos
			return err
		})
	case '[':
		err = s.list(func(int, int, int) error {
			add()
			return nil
		})
	default:
		err = s.value()
	}
	t.End = s.pos
	t.Raw = json.RawMessage(s.text[t.Start:t.End:t.End])
	b.done = t
	return err
}

// IsObject reports whether the value is an object.
func (t *Tree) IsObject() bool { return t.Raw[0] == '{' }

// IsList reports whether the value is a list.
func (t *Tree) IsList() bool { return t.Raw[0] == '[' }

// IsNull reports whether the value is null.
func (t *Tree) IsNull() bool { return t.Raw[0] == 'n' }

// Kind names the type of the value, as messages do: a string, true, an object.
func (t *Tree) Kind() string { return node{raw: t.Raw}.kind() }

// Text returns a string's value, and whether the value is a string.
func (t *Tree) Text() (string, bool) {
	if t.Raw[0] != '"' {
		return "", false
	}
	return unquote(t.Raw), true
}

// Get returns the first member of a key; nil if there is none, or the value is no object.
func (t *Tree) Get(key string) *Tree {
	if t == nil || !t.IsObject() {
		return nil
	}
	for _, m := range t.Children {
		if m.Key == key {
			return m
		}
	}
	return nil
}
