package output

import "testing"

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü":       "plain ü",
		"a\nb\tc":       "a; b c",
		"\x1b[31mred":   `\u001b[31mred`,
		"bell\a":        `bell\u0007`,
		"bidi \u202e x": `bidi \u202e x`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}
