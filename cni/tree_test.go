package cni_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestParseTree(t *testing.T) {
	text := ` {"a": [1, {"b\u0063": null}], "a": "x<y" }` + "\n"
	root, err := cni.ParseTree([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var walk func(n *cni.Tree)
	walk = func(n *cni.Tree) {
		line := n.Kind() + " " + text[n.Start:n.End]
		if n.KeyEnd > 0 {
			line = text[n.KeyStart:n.KeyEnd] + "=" + n.Key + " " + line
		}
		got = append(got, line)
		for _, c := range n.Children {
			if c.Parent != n {
				t.Errorf("%s has another parent", line)
			}
			walk(c)
		}
	}
	walk(root)
	want := []string{
		`an object {"a": [1, {"b\u0063": null}], "a": "x<y" }`,
		`"a"=a a list [1, {"b\u0063": null}]`,
		`a number 1`,
		`an object {"b\u0063": null}`,
		`"b\u0063"=bc null null`,
		`"a"=a a string "x<y"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	first := root.Get("a")
	if first == nil || !first.IsList() || first.IsObject() || first.IsNull() {
		t.Errorf("Get(a) = %v, want the first", first)
	}
	if word, ok := root.Children[1].Text(); !ok || word != "x<y" {
		t.Errorf("Text = %q, %v", word, ok)
	}
	if _, ok := first.Text(); ok || first.Get("a") != nil || root.Get("b") != nil || first.Get("x").Get("y") != nil {
		t.Error("something is found that is not there")
	}
	if null := first.Children[1].Get("bc"); null == nil || !null.IsNull() {
		t.Errorf("null = %v", null)
	}
}

func TestParseTreeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "bom": "\xef\xbb\xbf{}", "comma": `{"a":1,}`, "after": `{} x`, "deep": strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cni.ParseTree([]byte(text))
			if fault, ok := errors.AsType[*cni.SyntaxError](err); !ok || fault.Line < 1 || fault.Column < 1 {
				t.Errorf("error %v, want one with a place", err)
			}
		})
	}
}

// FuzzParseTree reads what ParseObject reads, but for keys that stand twice, and every value is where it says.
func FuzzParseTree(f *testing.F) {
	for _, s := range []string{`{}`, `[1,{"a":[]},"x"]`, `{"a":1,"a":{"b":null}}`, "\xef\xbb\xbf1", `{"a":1,}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		root, err := cni.ParseTree(text)
		if _, oErr := cni.ParseObject(text); oErr == nil && err != nil {
			t.Fatalf("ParseObject reads it, ParseTree: %v", err)
		}
		if err != nil {
			return
		}
		todo := []*cni.Tree{root}
		for len(todo) > 0 {
			n := todo[0]
			todo = append(todo[1:], n.Children...)
			if !bytes.Equal(n.Raw, text[n.Start:n.End]) {
				t.Fatalf("a value is not where it says: %q at %d", n.Raw, n.Start)
			}
			for _, c := range n.Children {
				if c.Start < n.Start || c.End > n.End || c.KeyEnd > c.Start {
					t.Fatalf("%q is not in %q", c.Raw, n.Raw)
				}
			}
		}
	})
}
