package tuning

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/cleat-cni/cleat/cni"
)

// sysctl is a value to be set.
type sysctl struct {
	key   string // as it was written
	name  string // path below /proc/sys
	value string
}

// placeholder stands for the name of the pod's interface.
const placeholder = "IFNAME"

// parseSysctls reads an object of keys and values, in its order. Two spellings of one key are an error, as two
// keys are.
func parseSysctls(raw json.RawMessage, at, ifName string) ([]sysctl, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		if err == nil && t == nil {
			return nil, nil // null
		}
		return nil, invalid("%s: want an object of names and values", at)
	}
	var list []sysctl
	for d.More() {
		var s sysctl
		t, err := d.Token()
		key, isName := t.(string)
		if err != nil || !isName {
			return nil, invalid("%s: want an object of names and values", at)
		}
		if err := d.Decode(&s.value); err != nil {
			return nil, invalid("%s: the value of %q is no string", at, key)
		}
		if s.key = key; strings.ContainsFunc(s.value, unicode.IsControl) {
			return nil, invalid("%s: the value of %q has a control character", at, key)
		}
		if s.name, err = nameOf(key, ifName); err != nil {
			return nil, invalid("%s: %w", at, err)
		}
		if i := slices.IndexFunc(list, func(o sysctl) bool { return o.name == s.name }); i >= 0 {
			return nil, invalid("%s: %q is there already, as %q", at, key, list[i].key)
		}
		list = append(list, s)
	}
	return list, nil
}

// nameOf is the path of a key. As for sysctl(8), the first separator decides: in a.b/c the slash is a dot of a name, as in an
// interface's; in a/b.c the dot is.
func nameOf(key, ifName string) (string, error) {
	swap := func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}
	name := key
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '.' {
		name = strings.Map(swap, key)
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if part == placeholder {
			parts[i] = ifName
		}
	}
	name = strings.Join(parts, "/")
	switch {
	case strings.ContainsFunc(key, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return "", cni.Errorf(cni.CodeInvalidConfig, "%q is no name of a sysctl", key)
	case path.Clean(name) != name || !strings.HasPrefix(name, "net/"):
		return "", cni.Errorf(cni.CodeInvalidConfig, "%q is not below net: only the network's values are a pod's own", key)
	}
	return name, nil
}

// override puts later values over earlier ones of the same name, and the others behind.
func override(list, later []sysctl) []sysctl {
	list = slices.Clone(list)
	for _, s := range later {
		if i := slices.IndexFunc(list, func(o sysctl) bool { return o.name == s.name }); i >= 0 {
			list[i] = s
		} else {
			list = append(list, s)
		}
	}
	return list
}

// checkAllowed refuses what no line of the allowlist matches. A line is a regular expression for the whole key, as it was written or with
// dots and the interface's name.
func checkAllowed(list []sysctl, text string) error {
	var allowed []*regexp.Regexp
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		re, err := regexp.Compile(`^(?:` + line + `)$`)
		if err != nil {
			return invalid("%s: %q is no regular expression: %w", allowlist, line, err)
		}
		allowed = append(allowed, re)
	}
	for _, s := range list {
		dotted := strings.ReplaceAll(s.name, "/", ".")
		if !slices.ContainsFunc(allowed, func(re *regexp.Regexp) bool { return re.MatchString(s.key) || re.MatchString(dotted) }) {
			return invalid("sysctl: %s allows no %q", allowlist, s.key).WithHint("a line of it has to match the whole name")
		}
	}
	return nil
}
