// Package output is how the command lines print what they found: tables for people, JSON and YAML for programs. Whatever plugins and files
// say is made harmless to a terminal first.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Format is how results are printed.
type Format string

// The formats.
const (
	Tabular Format = "table"
	Wide    Format = "wide"
	JSON    Format = "json"
	YAML    Format = "yaml"
)

// String is the name of the format.
func (f *Format) String() string { return string(*f) }

// Set takes the name of a format.
func (f *Format) Set(s string) error {
	switch v := Format(s); v {
	case Tabular, Wide, JSON, YAML:
		*f = v
		return nil
	default:
		return fmt.Errorf("%q is not json, yaml, table or wide", s)
	}
}

// Type lists the formats, for the help.
func (f *Format) Type() string { return "json|yaml|table|wide" }

// Structured reports whether the output is for programs.
func (f Format) Structured() bool { return f == JSON || f == YAML }

// Table is what a person reads: a heading and rows, and what only wide shows at the end of each.
type Table struct {
	Head, WideHead []string
	rows           [][]string
	wideRows       [][]string // beside rows, or nil
	Empty          string     // printed in place of a table without rows
}

// Add adds a row, and what wide shows at its end.
func (t *Table) Add(row []string, wide ...string) {
	t.rows = append(t.rows, row)
	t.wideRows = append(t.wideRows, wide)
}

// Write lays the table out.
func (t *Table) Write(w io.Writer, wide bool) error {
	if len(t.rows) == 0 {
		if t.Empty == "" {
			return nil
		}
		_, err := fmt.Fprintln(w, t.Empty)
		return err
	}
	var buf bytes.Buffer
	tw := tabwriter.NewWriter(&buf, 0, 8, 3, ' ', 0)
	line := func(cells, more []string) {
		if wide {
			cells = append(cells[:len(cells):len(cells)], more...)
		}
		shown := make([]string, len(cells))
		for i, c := range cells {
			if shown[i] = Printable(c); shown[i] == "" {
				shown[i] = "-"
			}
		}
		fmt.Fprintln(tw, strings.Join(shown, "\t"))
	}
	line(t.Head, t.WideHead)
	for i, r := range t.rows {
		line(r, t.wideRows[i])
	}
	return Flush(w, tw, &buf)
}

// Flush writes in one go what tw has laid out in buf: a tabwriter writes every cell by itself.
func Flush(w io.Writer, tw *tabwriter.Writer, buf *bytes.Buffer) error {
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// WriteStructured prints v, a value or ready JSON, as f says.
func WriteStructured(w io.Writer, f Format, v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	if f == YAML {
		if data, err = toYAML(data); err != nil {
			return err
		}
	}
	_, err = w.Write(data)
	return err
}

// encode gives v as indented JSON with a newline at the end, and leaves <, > and & as they are.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	if raw, ok := v.(json.RawMessage); ok {
		if err := json.Indent(&buf, bytes.TrimSpace(raw), "", "  "); err != nil {
			return nil, fmt.Errorf("encode json: %w", err)
		}
		buf.WriteByte('\n')
		return buf.Bytes(), nil
	}
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode json: %w", err)
	}
	return buf.Bytes(), nil
}

// Printable makes one line of s that does nothing to a terminal: what plugins and files say is not
// trusted to be free of control characters.
func Printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range strings.TrimSpace(s) {
		switch {
		case r == '\n':
			b.WriteString("; ")
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// Section is a heading and lines of a name, which may be empty, and what is said of it.
type Section struct {
	Title string
	Lines [][2]string
}

// WriteSections prints the sections that have lines, each after an empty line.
func WriteSections(w io.Writer, sections ...Section) error {
	var b strings.Builder
	for _, s := range sections {
		if len(s.Lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", s.Title)
		for _, l := range s.Lines {
			name := Printable(l[0])
			if name != "" {
				name += ": "
			}
			fmt.Fprintf(&b, "  %s%s\n", name, Printable(l[1]))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// AppendNew appends a line that is not there yet.
func AppendNew(lines [][2]string, l [2]string) [][2]string {
	if slices.Contains(lines, l) {
		return lines
	}
	return append(lines, l)
}
