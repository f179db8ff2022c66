package atomicfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cleat-cni/cleat/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, tc := range []struct {
		text string
		perm fs.FileMode
	}{{"first", 0o600}, {"second", 0o644}, {"", 0o600}} {
		if err := atomicfile.Write(path, []byte(tc.text), tc.perm); err != nil {
			t.Fatal(err)
		}
		check(t, path, tc.text, tc.perm)
	}
	nothingElse(t, path)
}

func TestWriteAs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	left := filepath.Join(filepath.Dir(path), atomicfile.TempName("tag"))
	if !atomicfile.IsTemp(filepath.Base(left)) {
		t.Errorf("%s is not taken for temporary", left)
	}
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(left, []byte("left by a killed writer"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.WriteAs("tag", path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, path, text, 0o600)
	}
	nothingElse(t, path)
}

func TestPublishLeavesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.Publish(from, to); (err == nil) != (text == "first") || err != nil && !errors.Is(err, fs.ErrExist) {
			t.Errorf("Publish of the %s: %v", text, err)
		}
		check(t, to, "first", 0o600)
	}
	check(t, from, "second", 0o600)
	if err := atomicfile.Publish(filepath.Join(dir, "none"), filepath.Join(dir, "free")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Publish of nothing: %v, want fs.ErrNotExist", err)
	}
}

// TestFailures leave no temporary file.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "folder"), nil, 0o600); err == nil {
		t.Error("writing over a folder succeeds")
	}
	if err := atomicfile.Write(filepath.Join(dir, "no", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writing in a missing folder: %v, want fs.ErrNotExist", err)
	}
	nothingElse(t, filepath.Join(dir, "folder"))
}

// TestPublishOnce: of many that publish under one name, one does.
func TestPublishOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var wg sync.WaitGroup
	made := make(chan string, 16)
	for i := range 16 {
		wg.Go(func() {
			text := fmt.Sprint(i)
			from := filepath.Join(dir, text)
			if err := atomicfile.Write(from, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
			if err := atomicfile.Publish(from, path); err == nil {
				made <- text
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(made)
	if len(made) != 1 {
		t.Fatalf("%d of 16 published", len(made))
	}
	check(t, path, <-made, 0o600)
}

func TestIsTemp(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), ".tmp-*")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if !atomicfile.IsTemp(filepath.Base(f.Name())) || atomicfile.IsTemp("net-c1-eth0") {
		t.Error("temporary files are not told from others")
	}
}

func check(t *testing.T, path, text string, perm fs.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != text {
		t.Errorf("content %q, %v; want %q", data, err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != perm {
		t.Errorf("mode %v, %v; want %v", info.Mode(), err, perm)
	}
}

func nothingElse(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("folder holds %v, %v", entries, err)
	}
}
