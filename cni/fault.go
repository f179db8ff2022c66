package cni

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SyntaxError is a fault in JSON text, with its place: text that is not JSON, or a
// value that is missing or wrong. Line and Column count from 1; Column counts
// bytes; both are 0 for a value that was not read from a text. File is empty
// where the text came from no file.
//
// To errors.As it is also an [*Error], with code 6 if the text is not JSON and 7 if
// a value is wrong.
type SyntaxError struct {
	File         string
	Line, Column int
	Path         string // the wrong value's, as plugins[1].type; empty where the text is not JSON
	Msg          string // what is wrong, and where it is known what to write instead
	Near         string // the text around the place, empty where Path says enough
	Err          error  // the cause, if there is one
}

// Error gives file:line:column, the path and the fault.
func (e *SyntaxError) Error() string {
	var b strings.Builder
	switch {
	case e.File != "" && e.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	case e.File != "":
		b.WriteString(e.File + ": ")
	case e.Line > 0:
		fmt.Fprintf(&b, "line %d, column %d: ", e.Line, e.Column)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Msg)
	if e.Near != "" {
		b.WriteString("; near: " + e.Near)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// As makes the error an [*Error] for errors.As.
func (e *SyntaxError) As(target any) bool {
	t, ok := target.(**Error)
	if ok {
		*t = &Error{Code: e.code(), Msg: e.Error(), Err: e}
	}
	return ok
}

func (e *SyntaxError) code() Code {
	if e.Path == "" {
		return CodeDecode
	}
	return CodeInvalidConfig
}

// position returns the line and column of an offset.
func position(text []byte, off int) (line, column int) {
	before := text[:min(off, len(text))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// fault makes the error for text that is not JSON at an offset.
func (s *scanner) fault(at int, format string, args ...any) error {
	line, column := position(s.text, at)
	return &SyntaxError{Line: line, Column: column, Msg: fmt.Sprintf(format, args...), Near: near(s.text, at)}
}

// near returns the text of the line around an offset, to be seen in a message.
func near(text []byte, at int) string {
	const around = 24
	at = min(at, len(text))
	from, to := max(at-around, 0), min(at+around, len(text))
	from += bytes.LastIndexByte(text[from:at], '\n') + 1
	if n := bytes.IndexByte(text[at:to], '\n'); n >= 0 {
		to = at + n
	}
	excerpt := strings.ToValidUTF8(string(text[from:to]), "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, excerpt))
}

// found names what stands at the position.
func (s *scanner) found() string {
	if s.pos >= len(s.text) {
		return "the end of the text"
	}
	if n := wordLen(s.text[s.pos:]); n > 0 {
		return string(s.text[s.pos : s.pos+min(n, 24)])
	}
	r, size := utf8.DecodeRune(s.text[s.pos:])
	if !strconv.IsPrint(r) || r == utf8.RuneError {
		return fmt.Sprintf("the byte 0x%02x", s.text[s.pos])
	}
	return string(s.text[s.pos : s.pos+size])
}

// foreign recognises what is at home in other notations than JSON and says
// what to write; "" for all else.
func (s *scanner) foreign() string {
	rest := s.text[s.pos:]
	for _, f := range []struct{ prefix, say string }{
		{"//", "comment: JSON has none, remove it"},
		{"/*", "comment: JSON has none, remove it"},
		{"#", "comment: JSON has none, remove it"},
		{"'", `single quote: write "`},
		{"`", `back quote: write "`},
		{"\u201c", `typographic quote: write "`},
		{"\u201d", `typographic quote: write "`},
		{"\u2018", `typographic quote: write "`},
		{"\u2019", `typographic quote: write "`},
		{"\u00a0", "no-break space: write a plain space"},
		{"\x00", "NUL byte: remove it"},
		{"\xef\xbb\xbf", "byte order mark: remove it"},
	} {
		if bytes.HasPrefix(rest, []byte(f.prefix)) {
			return f.say
		}
	}
	return ""
}

func (s *scanner) unclosed(open int) error {
	line, column := position(s.text, open)
	what, end := "object", "}"
	if s.text[open] == '[' {
		what, end = "list", "]"
	}
	return s.fault(s.pos, "the text ends inside the %s that begins at line %d, column %d: add the missing %s", what, line, column, end)
}

// trailing is the fault of text after the end of the value.
func (s *scanner) trailing() error {
	if say := s.foreign(); say != "" {
		return s.fault(s.pos, "%s", say)
	}
	switch c := s.peek(); c {
	case '}', ']':
		return s.fault(s.pos, "one %c too many: remove it", c)
	case '{':
		return s.fault(s.pos, "a second object after the end of the first: only one is allowed")
	}
	return s.fault(s.pos, "text after the end of the value: %s", s.found())
}

// badValue is the fault of something that begins no value.
func (s *scanner) badValue() error {
	if s.pos == len(s.text) {
		return s.fault(s.pos, "the text ends where a value should stand")
	}
	if say := s.foreign(); say != "" {
		return s.fault(s.pos, "%s", say)
	}
	switch c := s.peek(); c {
	case ',', '}', ']', ':':
		return s.fault(s.pos, "a value is missing before %c", c)
	case '.', '+':
		return s.badNumber(s.pos)
	}
	word := s.text[s.pos : s.pos+wordLen(s.text[s.pos:])]
	switch lower := strings.ToLower(string(word)); lower {
	case "":
		return s.fault(s.pos, "%s begins no value", s.found())
	case "true", "false", "null":
		return s.fault(s.pos, "%s: write %s", word, lower)
	case "none", "nil", "undefined":
		return s.fault(s.pos, "%s: write null", word)
	case "yes", "on":
		return s.fault(s.pos, "%s: write true", word)
	case "no", "off":
		return s.fault(s.pos, "%s: write false", word)
	}
	return s.fault(s.pos, `text without quotes: write "%s"`, s.found())
}

// badKey is the fault of something in an object that is no key. comma is where
// the comma before it stands, -1 for none.
func (s *scanner) badKey(open, comma int) error {
	if s.pos == len(s.text) {
		return s.unclosed(open)
	}
	if say := s.foreign(); say != "" {
		return s.fault(s.pos, "%s", say)
	}
	switch c := s.peek(); {
	case c == '}':
		return s.fault(comma, "trailing comma: remove the , before }")
	case c == ',':
		return s.fault(s.pos, "one comma too many: remove it")
	case wordLen(s.text[s.pos:]) > 0:
		return s.fault(s.pos, `key without quotes: write "%s"`, s.found())
	}
	return s.fault(s.pos, `%s where a key in quotes should stand`, s.found())
}

// badColon is the fault of something other than a colon after a key.
func (s *scanner) badColon(keyAt, keyEnd int) error {
	if say := s.foreign(); say != "" {
		return s.fault(s.pos, "%s", say)
	}
	key := s.text[keyAt:keyEnd]
	switch c := s.peek(); {
	case c == '=':
		return s.fault(s.pos, "= after the key %s: write :", key)
	case c == ',' || c == '}':
		return s.fault(s.pos, "the key %s has no value", key)
	case s.pos == keyEnd && wordLen(s.text[s.pos:]) > 0:
		return s.fault(keyAt, `a " is missing in or after %s`, key)
	}
	return s.fault(s.pos, "%s after the key %s: write :", s.found(), key)
}

// badNext is the fault of something after a member or element that is neither a comma nor the
// end of what holds it.
func (s *scanner) badNext(open int, end byte) error {
	if s.pos == len(s.text) {
		return s.unclosed(open)
	}
	if say := s.foreign(); say != "" {
		return s.fault(s.pos, "%s", say)
	}
	line, column := position(s.text, open)
	switch c := s.peek(); {
	case c == '}' || c == ']':
		return s.fault(s.pos, "%c where %c should stand, which ends what begins at line %d, column %d", c, end, line, column)
	case c == ':' && end == ']':
		return s.fault(s.pos, "a key in the list that begins at line %d, column %d: put { and } around the element", line, column)
	case c == '"' || c == '{' || c == '[':
		return s.fault(s.pos, "a comma is missing before %c", c)
	case s.text[s.pos-1] == '"' && wordLen(s.text[s.pos:]) > 0:
		return s.fault(s.pos, `a " is missing before or after %s`, s.found())
	}
	return s.fault(s.pos, "%s where a comma or %c should stand", s.found(), end)
}

// badNumber is the fault of a number that JSON writes in another way.
func (s *scanner) badNumber(start int) error {
	word := string(s.text[start : start+wordLen(s.text[start:])])
	digits := strings.TrimLeft(word, "+-")
	switch {
	case word == "-":
		return s.fault(start, "- without a number")
	case strings.Count(word, ".") > 1:
		return s.fault(start, `text without quotes: write "%s"`, word)
	case strings.HasPrefix(digits, "."):
		return s.fault(start, "the number %s: write a 0 before the point", word)
	case strings.HasPrefix(word, "+"):
		return s.fault(start, "the number %s: leave out the +", word)
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0X"):
		return s.fault(start, "the number %s: write it in decimal", word)
	case len(digits) > 1 && digits[0] == '0' && '0' <= digits[1] && digits[1] <= '9':
		return s.fault(start, "the number %s: leave out the zeros in front", word)
	}
	return s.fault(start, "%s is no number in JSON", word)
}
