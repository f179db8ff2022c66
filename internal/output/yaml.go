package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// toYAML writes JSON as YAML in block style. Order of keys and form of numbers stay as they are.
func toYAML(data []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	n, err := readNode(dec)
	if err != nil {
		return nil, fmt.Errorf("encode yaml: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("encode yaml: text after the value")
	}
	return []byte(strings.Join(n.lines(), "\n") + "\n"), nil
}

// node is a JSON value. Objects have keys beside items; a scalar, and what is empty, has only its text.
type node struct {
	text  string
	keys  []string
	items []node
}

func readNode(dec *json.Decoder) (node, error) {
	tok, err := dec.Token()
	if err != nil {
		return node{}, err
	}
	switch v := tok.(type) {
	case json.Delim:
		n := node{text: "[]"}
		if v == '{' {
			n.text = "{}"
		}
		for dec.More() {
			if v == '{' {
				key, err := dec.Token()
				if err != nil {
					return node{}, err
				}
				n.keys = append(n.keys, yamlString(fmt.Sprint(key)))
			}
			item, err := readNode(dec)
			if err != nil {
				return node{}, err
			}
			n.items = append(n.items, item)
		}
		_, err := dec.Token() // the end
		return n, err
	case string:
		return node{text: yamlString(v)}, nil
	case json.Number:
		return node{text: v.String()}, nil
	case bool:
		return node{text: fmt.Sprint(v)}, nil
	default:
		return node{text: "null"}, nil
	}
}

// lines is the node in block style, not moved in.
func (n node) lines() []string {
	if len(n.items) == 0 {
		return []string{n.text}
	}
	var out []string
	for i, item := range n.items {
		sub := item.lines()
		first, rest := "- ", "  "
		if n.keys != nil {
			first = n.keys[i] + ": "
			if len(item.items) > 0 {
				out = append(out, n.keys[i]+":")
				first = rest
			}
		}
		out = append(out, first+sub[0])
		for _, line := range sub[1:] {
			out = append(out, rest+line)
		}
	}
	return out
}

// isPlain reports whether no YAML reader takes s for anything but a string, unless it is a word of YAML.
func isPlain(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '/'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789.-", r)) {
			return false
		}
	}
	return s != ""
}

// yamlString gives s as it is if it is plain, else in double quotes with escapes for what is not Printable.
func yamlString(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if isPlain(s) {
			return s
		}
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
