package output

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestYAML(t *testing.T) {
	const in = `{"name": "my net", "n": 9007199254740993, "on": true, "word": "yes", "empty": "", "none": null, "path": "/run/netns/web",
		"list": [1, "a", [2, []], {"k": "v", "l": {}}], "address": "10.88.0.5/16", "mac": "0a:58", "time": "12:30:45", "two": "a\nb"}`
	const want = `name: "my net"
"n": 9007199254740993
"on": true
word: "yes"
empty: ""
none: null
path: /run/netns/web
list:
  - 1
  - a
  - - 2
    - []
  - k: v
    l: {}
address: "10.88.0.5/16"
mac: "0a:58"
time: "12:30:45"
two: "a\nb"
`
	got, err := toYAML([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// FuzzYAML proves that a YAML reader finds the same values.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{`{"a":[{"b":null},[]],"c":{}}`, `"\u0085\u2028"`, `[[["x"]]]`, `{"":"-","k ":"~","1":"1e3","=":"<<"}`, `true`, `-0.5e-3`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want any
		if json.Unmarshal([]byte(s), &want) != nil {
			return
		}
		// The encoder replaces what is no UTF-8 and removes double keys; compare what is left.
		clean, err := json.Marshal(want)
		if err != nil {
			return
		}
		text, err := toYAML(clean)
		if err != nil {
			t.Fatalf("%s: %v", clean, err)
		}
		var got any
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s is written as %q: %v", clean, text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s is written as %q (-want +got)\n%s", clean, text, diff)
		}
	})
}
