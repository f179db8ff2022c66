package cni

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

const (
	// maxDepth is how deep objects and lists may be nested in each other.
	maxDepth = 1000
	// maxText is how long a text may be, in bytes.
	maxText = 8 << 20
)

// scanner checks JSON text and finds where its values begin and end. It keeps
// nothing: what it finds it hands to the callback of object or list.
type scanner struct {
	text  []byte
	pos   int
	depth int
	// inner scans a value that stands in another one; nil is value.
	inner func() error
}

// nested scans the value at the position, which stands in another one.
func (s *scanner) nested() error {
	if s.inner != nil {
		return s.inner()
	}
	return s.value()
}

// memberFunc is told of a member: its key, where the key stands, and the value's
// bytes text[start:end].
type memberFunc func(key string, keyAt, start, end int) error

// itemFunc is told of an element of a list and its bytes text[start:end].
type itemFunc func(i, start, end int) error

// checkText finds what makes a text unreadable as a whole, before its first
// value.
func checkText(text []byte) error {
	s := &scanner{text: text}
	switch {
	case len(text) > maxText:
		return s.fault(0, "the text has %d bytes, more than the %d allowed", len(text), maxText)
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		return s.fault(0, "the text begins with a byte order mark: save it as UTF-8 without BOM")
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")):
		return s.fault(0, "the text is UTF-16: save it as UTF-8")
	case len(bytes.Trim(text, " \t\r\n")) == 0:
		return s.fault(0, "the text is empty")
	case len(bytes.Trim(text, "\x00")) == 0:
		return s.fault(0, "the text holds only NUL bytes, as after a power loss: write it again")
	}
	if at := invalidUTF8(text); at >= 0 {
		return s.fault(at, "the byte 0x%02x is not UTF-8: save the text as UTF-8", text[at])
	}
	return nil
}

func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// whole scans one value with nothing but white space around it, and returns where it
// begins and ends.
func (s *scanner) whole() (start, end int, err error) {
	if err := checkText(s.text); err != nil {
		return 0, 0, err
	}
	s.space()
	start = s.pos
	if err := s.value(); err != nil {
		return 0, 0, err
	}
	end = s.pos
	s.space()
	if s.pos < len(s.text) {
		return 0, 0, s.trailing()
	}
	return start, end, nil
}

// peek returns the byte at the position, 0 at the end of the text.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// value scans the value that begins at the position.
func (s *scanner) value() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(nil)
	case c == '[':
		return s.list(nil)
	case c == '"':
		return s.quoted()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		rest := s.text[s.pos:]
		if bytes.HasPrefix(rest, []byte(word)) && wordLen(rest) == len(word) {
			s.pos += len(word)
			return nil
		}
	}
	return s.badValue()
}

func (s *scanner) enter(open int) error {
	s.depth++
	if s.depth > maxDepth {
		return s.fault(open, "more than %d objects and lists inside each other", maxDepth)
	}
	return nil
}

// object scans the object that begins at the position and calls each, if it is not
// nil, for each member.
func (s *scanner) object(each memberFunc) error {
	open := s.pos
	if err := s.enter(open); err != nil {
		return err
	}
	s.pos++
	for comma := -1; ; {
		s.space()
		if s.peek() == '}' && comma < 0 {
			break
		}
		if s.peek() != '"' {
			return s.badKey(open, comma)
		}
		if err := s.member(each); err != nil {
			return err
		}
		s.space()
		if s.peek() == '}' {
			break
		}
		if s.peek() != ',' {
			return s.badNext(open, '}')
		}
		comma = s.pos
		s.pos++
	}
	s.pos++
	s.depth--
	return nil
}

func (s *scanner) member(each memberFunc) error {
	keyAt := s.pos
	if err := s.quoted(); err != nil {
		return err
	}
	keyEnd := s.pos
	s.space()
	if s.peek() != ':' {
		return s.badColon(keyAt, keyEnd)
	}
	s.pos++
	s.space()
	start := s.pos
	if err := s.nested(); err != nil {
		return err
	}
	if each == nil {
		return nil
	}
	return each(unquote(s.text[keyAt:keyEnd]), keyAt, start, s.pos)
}

// list scans the list that begins at the position and calls each, if it is not nil, for
// each element.
func (s *scanner) list(each itemFunc) error {
	open := s.pos
	if err := s.enter(open); err != nil {
		return err
	}
	s.pos++
	for i, comma := 0, -1; ; i++ {
		s.space()
		if s.peek() == ']' {
			if comma >= 0 {
				return s.fault(comma, "trailing comma: remove the , before ]")
			}
			break
		}
		if s.pos == len(s.text) {
			return s.unclosed(open)
		}
		start := s.pos
		if err := s.nested(); err != nil {
			return err
		}
		if each != nil {
			if err := each(i, start, s.pos); err != nil {
				return err
			}
		}
		s.space()
		if s.peek() == ']' {
			break
		}
		if s.peek() != ',' {
			return s.badNext(open, ']')
		}
		comma = s.pos
		s.pos++
	}
	s.pos++
	s.depth--
	return nil
}

// quoted scans a string.
func (s *scanner) quoted() error {
	open := s.pos
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\n' || c == '\r':
			return s.fault(open, `the string that begins here has no end on its line: add the missing "`)
		case c < ' ':
			return s.fault(s.pos, `control character 0x%02x in a string: write \u%04x`, c, c)
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		}
	}
	return s.fault(open, `the text ends inside the string that begins here: add the missing "`)
}

// escape scans an escape sequence up to its last byte.
func (s *scanner) escape() error {
	at := s.pos
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		if len(s.text)-s.pos > 4 && isHex(s.text[s.pos+1:s.pos+5]) {
			s.pos += 4
			return nil
		}
		return s.fault(at, `\u needs four hexadecimal digits`)
	}
	return s.fault(at, `a backslash in a string starts an escape: write \\ for the backslash itself`)
}

func isHex(digits []byte) bool {
	for _, c := range digits {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	return true
}

// number scans a number, whose form is -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?.
func (s *scanner) number() error {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	switch n := s.digits(); {
	case n == 0:
		return s.badNumber(start)
	case n > 1 && s.text[s.pos-n] == '0':
		return s.badNumber(start)
	}
	if s.peek() == '.' {
		s.pos++
		if s.digits() == 0 {
			return s.badNumber(start)
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if s.digits() == 0 {
			return s.badNumber(start)
		}
	}
	if wordLen(s.text[s.pos:]) > 0 {
		return s.badNumber(start)
	}
	return nil
}

func (s *scanner) digits() int {
	start := s.pos
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos - start
}

// wordLen is the length of the bare word at the beginning of text.
func wordLen(text []byte) int {
	for i, c := range text {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' ||
			c == '_' || c == '.' || c == '-' || c == '+') {
			return i
		}
	}
	return len(text)
}

// locate finds the innermost value of the valid text[start:] whose bytes include the byte
// before off, and returns its path and where it begins. encoding/json reports the
// place of a fault so: the end of a number or string, the byte after a bracket.
func locate(text []byte, start, off int) (path string, at int) {
	at = start
	s := &scanner{text: text, pos: start}
	within := func(step string, from, to int) {
		if from < off && off <= to {
			var rest string
			rest, at = locate(text, from, off)
			path = joinPath(step, rest)
		}
	}
	// The text is valid, so neither scan can fail.
	switch s.peek() {
	case '{':
		_ = s.object(func(key string, _, from, to int) error {
			within(key, from, to)
			return nil
		})
	case '[':
		_ = s.list(func(i, from, to int) error {
			within("["+strconv.Itoa(i)+"]", from, to)
			return nil
		})
	}
	return path, at
}

// joinPath puts key paths together: plugins and [1].type make plugins[1].type.
func joinPath(a, b string) string {
	if a == "" || b == "" || b[0] == '[' {
		return a + b
	}
	return a + "." + b
}
