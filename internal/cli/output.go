package cli

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

// format is how results are printed.
type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

// String, Set and Type make format a flag's value.
func (f *format) String() string { return string(*f) }

func (f *format) Set(s string) error {
	switch v := format(s); v {
	case formatTable, formatWide, formatJSON, formatYAML:
		*f = v
		return nil
	default:
		return fmt.Errorf("%q is not json, yaml, table or wide", s)
	}
}

func (f *format) Type() string { return "json|yaml|table|wide" }

// structured reports whether the output is for programs.
func (f format) structured() bool { return f == formatJSON || f == formatYAML }

// table is what a person reads: a heading and rows, and what only wide shows at the end of each.
type table struct {
	head, wideHead []string
	rows           [][]string
	wideRows       [][]string // beside rows, or nil
	empty          string     // printed in place of a table without rows
}

func (t *table) add(row []string, wide ...string) {
	t.rows = append(t.rows, row)
	t.wideRows = append(t.wideRows, wide)
}

func (t *table) write(w io.Writer, wide bool) error {
	if len(t.rows) == 0 {
		if t.empty == "" {
			return nil
		}
		_, err := fmt.Fprintln(w, t.empty)
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
			if shown[i] = printable(c); shown[i] == "" {
				shown[i] = "-"
			}
		}
		fmt.Fprintln(tw, strings.Join(shown, "\t"))
	}
	line(t.head, t.wideHead)
	for i, r := range t.rows {
		line(r, t.wideRows[i])
	}
	return flush(w, tw, &buf)
}

// flush writes in one go what tw has laid out in buf: a tabwriter writes every cell by itself.
func flush(w io.Writer, tw *tabwriter.Writer, buf *bytes.Buffer) error {
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// writeStructured prints v, a value or ready JSON, as f says.
func writeStructured(w io.Writer, f format, v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	if f == formatYAML {
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

// printable makes one line of s that does nothing to a terminal: what plugins and files say is not
// trusted to be free of control characters.
func printable(s string) string {
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

// section is a heading and lines of a name, which may be empty, and what is said of it.
type section struct {
	title string
	lines [][2]string
}

// writeSections prints the sections that have lines, each after an empty line.
func writeSections(w io.Writer, sections ...section) error {
	var b strings.Builder
	for _, s := range sections {
		if len(s.lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", s.title)
		for _, l := range s.lines {
			name := printable(l[0])
			if name != "" {
				name += ": "
			}
			fmt.Fprintf(&b, "  %s%s\n", name, printable(l[1]))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// appendNew appends a line that is not there yet.
func appendNew(lines [][2]string, l [2]string) [][2]string {
	if slices.Contains(lines, l) {
		return lines
	}
	return append(lines, l)
}
