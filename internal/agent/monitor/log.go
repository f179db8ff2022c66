package monitor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleat-cni/cleat/internal/ownfile"
)

// LogSpec is where a container's output goes, in the format of the CRI: a line each, with its time, its stream, and F, or P if the
// line goes on in the next.
type LogSpec struct {
	Path     string `json:"path"`
	MaxSize  int64  `json:"maxSize"`  // bytes, from which on a file is put aside; 0 is never
	MaxFiles int    `json:"maxFiles"` // files at most, with the one that is written
}

// maxLine is how long a line of the log gets, in bytes of output; what is longer becomes several with the tag P.
const maxLine = 16 << 10

// logWriter writes lines of both streams into one file. It is safe for concurrent use.
type logWriter struct {
	spec LogSpec
	now  func() time.Time

	mu   sync.Mutex
	file *os.File
	size int64
	line []byte
}

// openLog opens the file for more lines.
func openLog(spec LogSpec, now func() time.Time) (*logWriter, error) {
	w := &logWriter{spec: spec, now: now}
	if err := os.MkdirAll(filepath.Dir(spec.Path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the log: %w", err)
	}
	return w, w.open()
}

func (w *logWriter) open() error {
	f, err := ownfile.Open(w.spec.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open the log: %w", err)
	}
	w.file, w.size = f, info.Size()
	return nil
}

func (w *logWriter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.file.Close()
}

// copy reads a stream to its end. What can't be written, because the disk is full, is lost; the container goes on.
func (w *logWriter) copy(stream string, r io.Reader) {
	buf := make([]byte, 0, maxLine)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		for {
			i := bytes.IndexByte(buf, '\n')
			if i < 0 {
				break
			}
			w.write(stream, 'F', buf[:i])
			buf = buf[:copy(buf, buf[i+1:])]
		}
		if len(buf) == cap(buf) {
			w.write(stream, 'P', buf)
			buf = buf[:0]
		}
		if err != nil {
			if len(buf) > 0 {
				w.write(stream, 'P', buf)
			}
			return
		}
	}
}

// write writes one line in one call, so that a reader never sees a half of it.
func (w *logWriter) write(stream string, tag byte, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = w.now().AppendFormat(w.line[:0], time.RFC3339Nano)
	w.line = append(w.line, ' ')
	w.line = append(w.line, stream...)
	w.line = append(w.line, ' ', tag, ' ')
	w.line = append(w.line, text...)
	w.line = append(w.line, '\n')
	if w.spec.MaxSize > 0 && w.size > 0 && w.size+int64(len(w.line)) > w.spec.MaxSize {
		w.rotate()
	}
	n, _ := w.file.Write(w.line) // a full disk loses lines and stops nobody
	w.size += int64(n)
}

// rotate puts the file aside as <path>.<time> and begins a new one; the oldest beyond MaxFiles are removed. Where that fails
// the old one grows on.
func (w *logWriter) rotate() {
	aside := w.spec.Path + "." + w.now().UTC().Format("20060102-150405.000000")
	if err := os.Rename(w.spec.Path, aside); err != nil {
		return
	}
	old := w.file
	if err := w.open(); err != nil {
		w.file = old
		return
	}
	old.Close()
	all := Rotated(w.spec.Path)
	for len(all) > max(w.spec.MaxFiles-1, 0) {
		_ = os.Remove(all[0]) // the next rotation tries again
		all = all[1:]
	}
}

// Rotated lists the files that were put aside of a log, the oldest first.
func Rotated(path string) []string {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), base+".") {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(list)
	return list
}
