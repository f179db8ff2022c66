package lint

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/cleat-cni/cleat/cni"
)

// placeOf finds in a plugin's object what a message of the plugin is about: such messages name keys by their paths, as
// ipam.ranges[0][1].gateway or vlanTrunk[2], or else say a value that stands there. Values in skip are as if they were not
// there. It is the object itself if nothing is found.
func placeOf(message string, object *cni.Tree, skip func(*cni.Tree) bool) *cni.Tree {
	words := strings.FieldsFunc(message, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"',;()=`, r) })
	var partial *cni.Tree
	for i, word := range words {
		word = strings.TrimRight(word, ":.")
		t, whole := follow(object, word, skip)
		if whole {
			return within(t, words[i+1:], skip)
		}
		if partial == nil && t != object {
			partial = t
		}
	}
	if partial != nil {
		return partial
	}
	for _, word := range words {
		if t := holder(object, strings.TrimRight(word, ":."), skip); t != nil {
			return t
		}
	}
	return object
}

// within is the member of an object that one of the words names, or the object itself: the message may say the key of a free-form object behind its
// path.
func within(t *cni.Tree, words []string, skip func(*cni.Tree) bool) *cni.Tree {
	for _, word := range words {
		if m := t.Get(word); m != nil && !skip(m) {
			return m
		}
	}
	return t
}

// follow goes along a path as far as it leads, and reports whether that is to its end.
func follow(t *cni.Tree, path string, skip func(*cni.Tree) bool) (*cni.Tree, bool) {
	for path != "" {
		next := t
		if rest, ok := strings.CutPrefix(path, "["); ok {
			number, after, closed := strings.Cut(rest, "]")
			n, err := strconv.Atoi(number)
			if !closed || err != nil || !t.IsList() {
				return t, false
			}
			next, path = nth(t, n, skip), strings.TrimPrefix(after, ".")
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			next = member(t, path[:end])
			path = strings.TrimPrefix(path[end:], ".")
		}
		if next == nil || skip(next) {
			return t, false
		}
		t = next
	}
	return t, true
}

// nth is the n-th element, from 0, of those that are not skipped; nil without one.
func nth(t *cni.Tree, n int, skip func(*cni.Tree) bool) *cni.Tree {
	for _, item := range t.Children {
		if skip(item) {
			continue
		}
		if n == 0 {
			return item
		}
		n--
	}
	return nil
}

// holder is the first string or number below t whose text is word, or, but for a prefix length behind it, an address; nil without one.
func holder(t *cni.Tree, word string, skip func(*cni.Tree) bool) *cni.Tree {
	if skip(t) || word == "" {
		return nil
	}
	text, ok := t.Text()
	address, _, _ := strings.Cut(text, "/")
	if ok && (text == word || address == word) || !ok && string(t.Raw) == word {
		return t
	}
	for _, c := range t.Children {
		if found := holder(c, word, skip); found != nil {
			return found
		}
	}
	return nil
}
