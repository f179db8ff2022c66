package lint

import (
	"bytes"
	"errors"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// fault is a place where a text is not JSON.
type fault struct {
	at      int
	message string
	hint    string
	edits   []Edit // that mend it; nil if that is left to people
}

// maxFaults bounds how many faults of a text are looked for.
const maxFaults = 50

// parse reads a text, and beside its value all faults that it can get past: what is wrong is replaced by as many bytes
// as there were, so that all places stay, and the text is read again. The value is nil where that has an end.
func parse(data []byte) (*cni.Tree, []fault) {
	text := data
	var faults []fault
	for len(faults) < maxFaults {
		root, err := cni.ParseTree(text)
		if err == nil {
			return root, faults
		}
		wrong, ok := errors.AsType[*cni.SyntaxError](err)
		if !ok {
			return nil, append(faults, fault{message: err.Error()})
		}
		at := offsetOf(text, wrong.Line, wrong.Column)
		f := fault{at: at, message: wrong.Msg}
		if message, hint, ok := strings.Cut(wrong.Msg, ": "); ok && message != "" {
			f.message, f.hint = message, hint
		}
		cure, found := cureOf(text, at)
		if found {
			next := bytes.Clone(text)
			for _, p := range cure.patches {
				copy(next[p.Start:p.End], p.Text)
			}
			if found = further(next, at); found {
				text, f.edits = next, cure.edits
			}
		}
		faults = append(faults, f)
		if !found {
			return nil, faults
		}
	}
	return nil, faults
}

// further reports whether a text is JSON, or has its first fault behind at.
func further(text []byte, at int) bool {
	_, err := cni.ParseTree(text)
	wrong, ok := errors.AsType[*cni.SyntaxError](err)
	return err == nil || ok && offsetOf(text, wrong.Line, wrong.Column) > at
}

// offsetOf is where a line and column, from 1, are in a text.
func offsetOf(text []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			break
		}
		at += n + 1
	}
	return min(at+max(column, 1)-1, len(text))
}

// cure is how a fault is got past: patches, which leave every place where it was, and edits that mend the file.
type cure struct {
	patches []Edit
	edits   []Edit
}

// cureOf finds out by the bytes at a fault what to do about it.
func cureOf(text []byte, at int) (cure, bool) {
	rest := text[at:]
	switch {
	case len(rest) == 0:
		return cure{}, false
	case bytes.HasPrefix(rest, []byte("\xef\xbb\xbf")):
		return blanked(at, 3), true
	case bytes.HasPrefix(rest, []byte("\u00a0")):
		return cure{patches: []Edit{{at, at + 2, "  "}}, edits: []Edit{{at, at + 2, " "}}}, true
	case rest[0] == ',':
		return blanked(at, 1), true
	case rest[0] == '=':
		return replaced(at, 1, ":"), true
	case rest[0] == '"' || rest[0] == '{' || rest[0] == '[':
		return commaBefore(text, at)
	case rest[0] == '\'':
		return quoted(text, at, "'", "'")
	case bytes.HasPrefix(rest, []byte("\u201c")), bytes.HasPrefix(rest, []byte("\u201d")):
		return quoted(text, at, string(rest[:3]), "\u201d")
	case rest[0] == '/' || rest[0] == '#':
		return comment(text, at)
	}
	for _, w := range [][2]string{{"True", "true"}, {"TRUE", "true"}, {"False", "false"}, {"FALSE", "false"}, {"None", "null"}, {"NULL", "null"}} {
		if bytes.HasPrefix(rest, []byte(w[0])) {
			return replaced(at, len(w[0]), w[1]), true
		}
	}
	return cure{}, false
}

func blanked(at, n int) cure {
	return cure{patches: []Edit{{at, at + n, strings.Repeat(" ", n)}}, edits: []Edit{{at, at + n, ""}}}
}

func replaced(at, n int, by string) cure {
	both := []Edit{{at, at + n, by}}
	return cure{patches: both, edits: both}
}

// commaBefore sets the comma that is missing before a value, right behind the one before. It takes the place of the white space between them.
func commaBefore(text []byte, at int) (cure, bool) {
	end := len(bytes.TrimRight(text[:at], " \t\r\n"))
	if end == at || end == 0 {
		return cure{}, false
	}
	return cure{patches: []Edit{{end, end + 1, ","}}, edits: []Edit{{end, end, ","}}}, true
}

// quoted replaces the quotes around a word on one line by those of JSON.
func quoted(text []byte, at int, open, end string) (cure, bool) {
	inner := text[at+len(open):]
	n := bytes.Index(inner, []byte(end))
	if n < 0 || bytes.ContainsAny(inner[:n], "\n\"\\") {
		return cure{}, false
	}
	first, last := Edit{at, at + len(open), `"`}, Edit{at + len(open) + n, at + len(open) + n + len(end), `"`}
	wide := first
	wide.Text = strings.Repeat(" ", len(open)-1) + `"`
	after := last
	after.Text = `"` + strings.Repeat(" ", len(end)-1)
	return cure{patches: []Edit{wide, after}, edits: []Edit{first, last}}, true
}

// comment gets past a comment. It says something to people, so it is not removed for them.
func comment(text []byte, at int) (cure, bool) {
	rest := text[at:]
	n := bytes.IndexByte(rest, '\n')
	if n < 0 {
		n = len(rest)
	}
	switch {
	case bytes.HasPrefix(rest, []byte("/*")):
		end := bytes.Index(rest, []byte("*/"))
		if end < 0 {
			return cure{}, false
		}
		n = end + 2
	case !bytes.HasPrefix(rest, []byte("//")) && rest[0] != '#':
		return cure{}, false
	}
	return cure{patches: []Edit{{at, at + n, strings.Repeat(" ", n)}}}, true
}
