package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// under, item and key make the paths of fields: spec.containers[0].env, metadata.labels[app].
func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func key(path, name string) string { return path + "[" + name + "]" }

// resolve follows aliases; nodes of anchors hold no alias at their top, so one step is enough.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// member returns a member of a mapping, or nil.
func member(n *yaml.Node, name string) *yaml.Node {
	_, value := find(n, name)
	return value
}

// find returns key and value of a member of a mapping, or nil.
func find(n *yaml.Node, name string) (key, value *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Kind == yaml.ScalarNode && k.Value == name {
			return k, resolve(n.Content[i+1])
		}
	}
	return nil, nil
}

// lineOf returns the line of a field, or of the nearest thing around it that the text has: a default has no line.
func lineOf(n *yaml.Node, path string) int {
	line := n.Line
	for path != "" {
		var step string
		if rest, ok := strings.CutPrefix(path, "["); ok {
			step, path, _ = strings.Cut(rest, "]")
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			step, path = path[:end], path[end:]
		}
		path = strings.TrimPrefix(path, ".")
		at, next := find(n, step)
		if i, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode && i >= 0 && i < len(n.Content) {
			at, next = n.Content[i], resolve(n.Content[i])
		}
		if next == nil {
			return line
		}
		n, line = next, at.Line
	}
	return line
}
