package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	nullTag  = "!!null"
	mergeTag = "!!merge"
)

// maxDepth is how deep JSON may nest; a Pod has 12 levels.
const maxDepth = 100

// split returns the documents of a text that hold something, as trees that know their lines.
func split(data []byte, limit int) ([]*yaml.Node, *Fault) {
	if len(data) > limit {
		return nil, &Fault{Reason: fmt.Sprintf("is longer than %d bytes", limit)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, &Fault{Line: lineAt(data, invalidAt(data)), Reason: "is not UTF-8"}
	}
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		docs, fault := splitJSON(data)
		if fault == nil || looksLikeJSON(data) {
			return docs, fault
		}
	}
	return splitYAML(data)
}

// looksLikeJSON tells JSON with a mistake from YAML that begins with a brace.
func looksLikeJSON(data []byte) bool { return regexp.MustCompile(`^\s*\{\s*"`).Match(data) }

// invalidAt returns where a text stops being UTF-8.
func invalidAt(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// lineAt returns the line of an offset, from 1.
func lineAt(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), len(data))], []byte("\n"))
}

func splitYAML(data []byte) ([]*yaml.Node, *Fault) {
	var docs []*yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, yamlFault(data, err)
		}
		if len(doc.Content) == 1 && doc.Content[0].ShortTag() != nullTag {
			docs = append(docs, doc.Content[0])
		}
	}
}

// yamlFault turns an error of the YAML library into a fault. The library tells the line in its text only, and may mean the one before. A
// tab that indents is the commonest reason, so say where one is.
func yamlFault(data []byte, err error) *Fault {
	f := &Fault{Reason: "read YAML: " + err.Error()}
	if m := regexp.MustCompile(`^yaml: line (\d+): (.*)`).FindStringSubmatch(err.Error()); m != nil {
		f.Reason = "read YAML: " + m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			f.Line = n
		}
	}
	if at := regexp.MustCompile(`(?m)^ *\t`).FindIndex(data); at != nil {
		f.Line = lineAt(data, at[0])
		f.Reason += " (this line is indented by a tab, and YAML wants spaces)"
	}
	return f
}

// splitJSON reads JSON values, one behind the other.
func splitJSON(data []byte) ([]*yaml.Node, *Fault) {
	var docs []*yaml.Node
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	for {
		n, err := r.value(0)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			offset := int(r.dec.InputOffset())
			if s, ok := errors.AsType[*json.SyntaxError](err); ok {
				offset = int(s.Offset)
			}
			return nil, &Fault{Line: lineAt(data, offset), Reason: "read JSON: " + err.Error()}
		}
		docs = append(docs, n)
	}
}

// jsonReader makes the tree of JSON values that the YAML library makes of YAML. That one can't read all JSON: of
// characters beyond the first plane it wants others than JSON's two escapes.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	at   int // an offset whose line is known
	line int // its line, less one
}

func (r *jsonReader) node(kind yaml.Kind, tag, value string) *yaml.Node {
	offset := int(r.dec.InputOffset())
	r.line += bytes.Count(r.data[r.at:offset], []byte("\n"))
	r.at = offset
	return &yaml.Node{Kind: kind, Tag: tag, Value: value, Line: r.line + 1}
}

// value reads one value. What ends within it is io.ErrUnexpectedEOF.
func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	t, err := r.dec.Token()
	if errors.Is(err, io.EOF) && depth > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		n := r.node(yaml.MappingNode, "!!map", "")
		if t == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for r.dec.More() {
			child, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if _, err := r.dec.Token(); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		return n, nil
	case string:
		n := r.node(yaml.ScalarNode, "!!str", t)
		n.Style = yaml.DoubleQuotedStyle
		return n, nil
	case json.Number:
		return r.node(yaml.ScalarNode, "", t.String()), nil
	case bool:
		return r.node(yaml.ScalarNode, "!!bool", strconv.FormatBool(t)), nil
	default:
		return r.node(yaml.ScalarNode, nullTag, "null"), nil
	}
}
