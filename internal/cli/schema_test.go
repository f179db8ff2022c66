package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSchema(t *testing.T) {
	s := newStage(t, nil)
	for _, tc := range []struct {
		name  string
		args  []string
		title string
	}{
		{"plugin", []string{"schema", "pair"}, "pair"},
		{"network", []string{"schema"}, "network"},
		{"json", []string{"schema", "pair", "-o", "json"}, "pair"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var doc struct {
				Title      string                     `json:"title"`
				Properties map[string]json.RawMessage `json:"properties"`
			}
			if err := json.Unmarshal([]byte(s.mustRun(tc.args...)), &doc); err != nil {
				t.Fatal(err)
			}
			if doc.Title != tc.title || len(doc.Properties) < 5 {
				t.Errorf("got %q with %d keys", doc.Title, len(doc.Properties))
			}
		})
	}
	if out := s.mustRun("schema", "pair", "-o", "yaml"); !strings.Contains(out, "\ntitle: pair\n") {
		t.Errorf("yaml:\n%s", out)
	}
	for _, typ := range []string{"pari", ""} {
		status, out, errs := s.run(t.Context(), "schema", typ)
		if status != exitUsage || out != "" || !strings.Contains(errs, "pair") {
			t.Errorf("schema %q: status %d, %q, %q; want a usage error that names pair", typ, status, out, errs)
		}
	}
}
