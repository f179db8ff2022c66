package filelock

import (
	"strings"
	"testing"
)

func TestHolderIn(t *testing.T) {
	const locks = `1: POSIX  ADVISORY  WRITE 11 00:1a:5678 0 EOF
2: FLOCK  ADVISORY  WRITE 22 00:1a:5679 0 EOF
3: FLOCK  ADVISORY  WRITE 33 00:1a:5678 0 EOF
3: -> FLOCK  ADVISORY  WRITE 44 00:1a:5678 0 EOF
4: OFDLCK ADVISORY  WRITE -1 00:1a:5678 0 EOF
5: FLOCK  ADVISORY  WRITE 0 00:1b:1 0 EOF
`
	for id, want := range map[string]string{"00:1a:5678": "33", "00:1a:5679": "22", "00:1b:1": "", "00:1a:9": ""} {
		if got := holderIn(strings.NewReader(locks), id); got != want {
			t.Errorf("holder of %s: %q, want %q", id, got, want)
		}
	}
}
