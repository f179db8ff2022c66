package lint

import (
	"fmt"

	"github.com/cleat-cni/cleat/cni"
)

// Severity says how bad a finding is.
type Severity string

// The severities. What is an error keeps the configuration from doing what it says, on any machine.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one problem.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`   // from 1
	Column   int      `json:"column"` // from 1, in bytes
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"` // a [Rule]'s ID
	Message  string   `json:"message"`
	Hint     string   `json:"hint"` // what to write or do; may be empty

	line  string // the text of the line
	width int    // how many bytes of it are meant, at least 1
	edits []Edit
}

// Edit puts Text in place of a file's bytes from Start to End.
type Edit struct {
	Start, End int
	Text       string
}

// Edits are what [Fix] would do about the finding; nil if that is left to people.
func (f Finding) Edits() []Edit { return f.edits }

// hint adds what to do.
func (f *Finding) hint(format string, args ...any) *Finding {
	f.Hint = fmt.Sprintf(format, args...)
	return f
}

// fix adds edits that mend it without changing what the configuration means.
func (f *Finding) fix(edits ...Edit) *Finding {
	f.edits = edits
	return f
}

// span is a part of a file.
type span struct{ start, end int }

// add records a finding of the rule that runs about a part of a file.
func (r *run) add(d *document, at span, severity Severity, message string) *Finding {
	line, column := d.position(at.start)
	f := &Finding{File: d.Path, Line: line, Column: column, Severity: severity, Rule: r.rule, Message: message, line: d.line(line)}
	f.width = max(1, min(at.end-at.start, len(f.line)-column+1))
	r.findings = append(r.findings, f)
	return f
}

// value records a finding about a value. An erroneous value is left out of what plugins are asked to judge.
func (r *run) value(d *document, t *cni.Tree, severity Severity, format string, args ...any) *Finding {
	d.spoil(t, severity)
	return r.add(d, span{t.Start, t.End}, severity, fmt.Sprintf(format, args...))
}

// key records a finding about a member's key, or about a value that is no member's.
func (r *run) key(d *document, t *cni.Tree, severity Severity, format string, args ...any) *Finding {
	d.spoil(t, severity)
	at := span{t.KeyStart, t.KeyEnd}
	if t.KeyEnd == 0 {
		at = span{t.Start, t.Start + 1}
	}
	return r.add(d, at, severity, fmt.Sprintf(format, args...))
}

// file records a finding about a file as a whole.
func (r *run) file(d *document, severity Severity, format string, args ...any) *Finding {
	return r.add(d, span{}, severity, fmt.Sprintf(format, args...))
}
