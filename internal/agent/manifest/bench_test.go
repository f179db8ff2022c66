package manifest

import (
	"os"
	"strings"
	"testing"
)

// BenchmarkParse reads a list of 500 pods, as a source has them for a full node.
func BenchmarkParse(b *testing.B) {
	raw, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for i := range 500 {
		text.WriteString("---\n")
		one := strings.Replace(string(raw), "name: full", "name: full-"+string(rune('a'+i/26))+string(rune('a'+i%26)), 1)
		text.WriteString(strings.Replace(one, "uid: 1111", "uid: x", 1))
	}
	src := source()
	src.Kind = HTTP
	data := []byte(strings.ReplaceAll(text.String(), "  uid: x1111-2222-3333-4444-555555555555\n", ""))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(src, data); err != nil {
			b.Fatal(err)
		}
	}
}
