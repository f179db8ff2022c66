package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/lint"
)

// TestRender shows findings where a line is long, or has letters that take room of their own.
func TestRender(t *testing.T) {
	pad := func(n int) string { return strings.Repeat("x", n) }
	for _, tc := range []struct{ name, text, want string }{
		{"tabs", "{\"cniVersion\": \"1.1.0\", \"name\": \"n\", \"plugins\": [\n\t{\"type\": \"bridge\",\t\"mtuu\": 5}]}",
			"  |\n2 |     {\"type\": \"bridge\",    \"mtuu\": 5}]}\n  |                           ^^^^^^\n"},
		{"wide-letters", "{\"cniVersion\": \"1.1.0\", \"name\": \"n\", \"plugins\": [\n{\"type\": \"bridge\", \"//\": \"größe\", \"mtuu\": 5}]}",
			"2 | {\"type\": \"bridge\", \"//\": \"größe\", \"mtuu\": 5}]}\n  |                                   ^^^^^^\n"},
		{"long", `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "bridge", "//": "` + pad(200) + `", "mtuu": 5, "//": "` + pad(200) + `"}]}`,
			"1 | …" + pad(51) + `", "mtuu": 5, "//": "` + pad(37) + "…\n  |  " + strings.Repeat(" ", 54) + "^^^^^^\n"},
		{"long-mark", `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "bridge", "bridge": "` + pad(300) + `"}]}`,
			"^\n"},
		{"escape", "{\"cniVersion\": \"1.1.0\", \"name\": \"\\u001b[2J\", \"plugins\": [{\"type\": \"bridge\"}]}", `\u001b[2J`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := check(t, []lint.File{{Path: "a.conflist", Data: []byte(tc.text), Mode: 0o644}}, nil)
			if len(found) == 0 {
				t.Fatal("nothing found")
			}
			got := found[0].Render(nil)
			if !strings.Contains(got, tc.want) {
				t.Errorf("want in it\n%s\ngot\n%s", tc.want, got)
			}
			for line := range strings.Lines(got) {
				if n := len([]rune(line)); n > 130 && !strings.HasPrefix(line, "error") && !strings.Contains(line, "help") {
					t.Errorf("a line of %d letters: %s", n, line)
				}
			}
		})
	}
}

func TestRenderPaints(t *testing.T) {
	found := check(t, []lint.File{{Path: "a.conflist", Data: []byte(`{"cniVersion": "1.1.0", "name": "n", "plugins": []}`), Mode: 0o644}}, nil)
	got := found[0].Render(func(s lint.Severity, text string) string { return fmt.Sprintf("<%s:%s>", s, text) })
	want := `<error:error[L206]>: plugins is empty
<: -->> a.conflist:1:49
<:  |>
<:1 |> {"cniVersion": "1.1.0", "name": "n", "plugins": []}
<:  |>                                                 <error:^^>
<:  => help: a network has at least one plugin
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
