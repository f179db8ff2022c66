package program

import (
	"path/filepath"
	"testing"
)

func TestVersion(t *testing.T) {
	if got := Version("1.2.3"); got != "1.2.3" {
		t.Errorf("the linker's: %q", got)
	}
	if got := Version(""); got == "" {
		t.Error("without the linker's there is none")
	}
}

func TestFile(t *testing.T) {
	if got := File(); !filepath.IsAbs(got) {
		t.Errorf("file %q", got)
	}
}
