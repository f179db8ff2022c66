package lint

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// excerpt is how much of a long line is shown, in letters.
const excerpt = 110

// Render shows a finding with the line it is about, the place marked below, and what to do:
//
//	error[L101]: unknown key "isGatway" of bridge
//	 --> 10-pods.conflist:6:7
//	  |
//	6 |       "isGatway": true,
//	  |       ^^^^^^^^^^
//	  = help: did you mean isGateway?
//
// paint colours a part of it: a severity, or "" for what only frames; nil leaves all plain.
func (f Finding) Render(paint func(Severity, string) string) string {
	if paint == nil {
		paint = func(_ Severity, s string) string { return s }
	}
	var b strings.Builder
	number := fmt.Sprint(f.Line)
	margin := strings.Repeat(" ", len(number))
	bar := paint("", margin+" |")
	fmt.Fprintf(&b, "%s: %s\n", paint(f.Severity, fmt.Sprintf("%s[%s]", f.Severity, f.Rule)), printable(f.Message))
	fmt.Fprintf(&b, "%s %s:%d:%d\n", paint("", margin+"-->"), printable(f.File), f.Line, f.Column)
	if strings.TrimSpace(f.line) != "" {
		text, at, width := f.shown()
		mark := strings.Repeat(" ", at) + paint(f.Severity, strings.Repeat("^", width))
		fmt.Fprintf(&b, "%s\n%s %s\n%s %s\n", bar, paint("", number+" |"), text, bar, mark)
	}
	if f.Hint != "" {
		fmt.Fprintf(&b, "%s help: %s\n", paint("", margin+" ="), printable(f.Hint))
	}
	return b.String()
}

// shown is the line as it is printed, or the part of a long one around the place, and where in it the mark begins and how long it is,
// in letters. Tabs become four blanks.
func (f Finding) shown() (text string, at, width int) {
	column := min(f.Column-1, len(f.line))
	end := min(column+f.width, len(f.line))
	before, marked, after := spread(f.line[:column]), spread(f.line[column:end]), spread(f.line[end:])
	if n := count(before); n > excerpt*2/3 && n+count(marked)+count(after) > excerpt {
		cut := n - excerpt/2
		before = "…" + skip(before, cut+1)
	}
	if n := count(before) + count(marked); n > excerpt {
		keep := max(1, excerpt-count(before))
		marked, after = first(marked, keep), "…"
	} else if count(after) > excerpt-n {
		after = first(after, excerpt-n) + "…"
	}
	return before + marked + after, count(before), max(1, count(marked))
}

// spread makes a line's part one that does nothing to a terminal: a tab becomes four blanks, and what can't be printed a dot.
func spread(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '·'
		}
		return r
	}, strings.ReplaceAll(s, "\t", "    "))
}

func count(s string) int { return utf8.RuneCountInString(s) }

func first(s string, n int) string { return string([]rune(s)[:min(n, count(s))]) }

func skip(s string, n int) string { return string([]rune(s)[min(n, count(s)):]) }
