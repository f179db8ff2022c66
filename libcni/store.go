package libcni

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cleat-cni/cleat/internal/atomicfile"
	"github.com/cleat-cni/cleat/internal/ownfile"
)

const (
	maxFileName = 255      // bytes, on all file systems in use
	maxRecord   = 16 << 20 // bytes; what is larger is no record
)

// store is the state folder. Its methods lock nothing: whoever writes holds the container's operation lock.
type store struct{ dir string }

func (s store) results() string { return filepath.Join(s.dir, "results") }
func (s store) adding() string  { return filepath.Join(s.dir, "cleat", "adding") }

// entry is a file of the store.
type entry struct {
	path string
	mod  time.Time
	rec  *record
	err  error // why rec is nil: the file can't be read or understood

	intent bool // set by entries only
}

// plainName is the record's name as the field has it. Names that hold hyphens can share one; ok is
// false where no file can have it.
func (k key) plainName() (name string, ok bool) {
	name = k.network + "-" + k.containerID + "-" + k.ifName
	return name, len(name) <= maxFileName && !strings.ContainsAny(name, "/\\\x00")
}

// hashedName is a name that no other attachment has, and that begins readably.
func (k key) hashedName() string {
	sum := sha256.Sum256([]byte(k.network + "\x00" + k.containerID + "\x00" + k.ifName))
	tail := "~" + hex.EncodeToString(sum[:8])
	plain := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == 0 {
			return '_'
		}
		return r
	}, k.network+"-"+k.containerID+"-"+k.ifName)
	return plain[:min(len(plain), maxFileName-len(tail))] + tail
}

func (s store) intentPath(k key) string { return filepath.Join(s.adding(), k.hashedName()) }

// find returns the record of an attachment: nil without one, an entry with err for one that can't be read.
func (s store) find(k key) *entry {
	var plain *entry
	if name, ok := k.plainName(); ok {
		plain = readEntry(filepath.Join(s.results(), name), decodeRecord)
	}
	if plain != nil && plain.rec != nil && plain.rec.key == k {
		return plain
	}
	if hashed := readEntry(filepath.Join(s.results(), k.hashedName()), decodeRecord); hashed != nil && (hashed.rec == nil || hashed.rec.key == k) {
		return hashed
	}
	if plain != nil && (plain.rec == nil || plain.rec.legacy) {
		return plain // whose it is can't be told; the name says ours
	}
	return nil
}

// intent returns the intent of an attachment, as find does the record.
func (s store) intent(k key) *entry { return readEntry(s.intentPath(k), decodeIntent) }

// readEntry reads one file; nil if there is none. What is no file of ours, or may be another user's word, can't be read: DEL runs the plugins
// that a record names.
func readEntry(path string, decode func([]byte) (*record, error)) *entry {
	e := &entry{path: path}
	info, err := os.Lstat(path)
	switch {
	case err == nil:
		e.mod = info.ModTime()
	case !errors.Is(err, fs.ErrPermission):
		return nil
	}
	data, err := ownfile.Read(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		e.rec, err = decode(data)
	}
	if err != nil {
		e.err = fmt.Errorf("read record %s: %w", path, err)
	}
	return e
}

// begin writes the intent. That the records' folder can be written to is found out here, before any plugin runs.
func (s store) begin(r *record) error {
	data, err := r.encodeIntent()
	if err != nil {
		return err
	}
	if err := errors.Join(makeWritable(s.results()), s.private()); err != nil {
		return fmt.Errorf("prepare record of %s: %w", r.key, err)
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	path := s.intentPath(r.key)
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(s.adding(), 0o700); err != nil {
			return fmt.Errorf("prepare record of %s: %w", r.key, err)
		}
		f, err = os.OpenFile(path, flags, 0o600)
	}
	if err != nil {
		return fmt.Errorf("prepare record of %s: %w", r.key, err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("prepare record of %s: %w", r.key, err), os.Remove(path))
	}
	return nil
}

// complete appends the result to the intent.
func (s store) complete(r *record) error {
	data, err := r.encodeResult()
	if err != nil {
		return err
	}
	f, err := ownfile.Open(s.intentPath(r.key), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("write record of %s: %w", r.key, err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write record of %s: %w", r.key, err)
	}
	return nil
}

// private refuses folders that everybody can write to: a record says which plugins DEL runs.
func (s store) private() error {
	for _, dir := range []string{s.dir, s.results(), s.adding()} {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = refuseOpen(dir, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeWritable makes the folder unless it is there, and checks that files can be made in it.
func makeWritable(dir string) error {
	err := writable(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o700)
	}
	return err
}

// finish turns the intent of r, which has its result by now, into the record.
func (s store) finish(r *record) error {
	if err := s.complete(r); err != nil {
		return err
	}
	intent := s.intentPath(r.key)
	name, ok := r.plainName()
	if !ok {
		return move(intent, filepath.Join(s.results(), r.hashedName()))
	}
	plain := filepath.Join(s.results(), name)
	// Never over another file: an attachment whose joined names are the same is under another lock and may publish right now.
	err := atomicfile.Publish(intent, plain)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrExist):
		return move(intent, plain)
	case r.mayReplace(plain):
		return move(intent, plain)
	default:
		return move(intent, filepath.Join(s.results(), r.hashedName()))
	}
}

// mayReplace reports whether the file that has the plain name isn't another attachment's.
func (r *record) mayReplace(plain string) bool {
	if info, err := os.Lstat(plain); err == nil && info.IsDir() {
		return false
	}
	e := readEntry(plain, decodeRecord)
	return e == nil || e.rec == nil || e.rec.legacy || e.rec.key == r.key
}

// move renames a file. Where the records are on a file system of their own it is written anew.
func move(from, to string) error {
	err := os.Rename(from, to)
	if err == nil {
		return nil
	}
	data, readErr := ownfile.Read(from, maxRecord)
	if readErr != nil {
		return fmt.Errorf("write record: %w", err)
	}
	if err := atomicfile.Write(to, data, 0o600); err != nil {
		return err
	}
	return os.Remove(from)
}

// drop removes the files of an attachment: its record first, so that what is left after a crash is an intent, which no
// other library takes for an attachment.
func (s store) drop(entries ...*entry) error {
	var errs []error
	for _, e := range entries {
		if e == nil {
			continue
		}
		if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove record: %w", err))
		}
	}
	return errors.Join(errs...)
}

// errNoFolder says that something stands in the place of a folder of records: none can be there, and none can be made.
var errNoFolder = errors.New("not a folder: remove what stands there")

// files returns the names of the files in a folder of the store, sorted; a folder that isn't there has none.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("list records: %s: %w", dir, errNoFolder)
	}
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if !atomicfile.IsTemp(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// sweep removes what killed writers left and what means nothing: temporary files, and intents of an ADD that had not begun. Nobody may
// be writing.
func (s store) sweep() error {
	var errs []error
	for _, dir := range []string{s.results(), s.adding()} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("list records: %w", err))
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if atomicfile.IsTemp(e.Name()) || dir == s.adding() && notBegun(readEntry(path, decodeIntent)) {
				errs = append(errs, os.Remove(path))
			}
		}
	}
	return errors.Join(errs...)
}

// empty returns the records of a network that hold nothing, but for those of keep. The reference library leaves one when it is
// killed between making and writing it.
func (s store) empty(network string, keep []key) ([]*entry, error) {
	names, err := files(s.results())
	if err != nil {
		return nil, err
	}
	kept := map[string]bool{}
	for _, k := range keep {
		plain, _ := k.plainName()
		kept[plain], kept[k.hashedName()] = true, true
	}
	var list []*entry
	for _, name := range names {
		path := filepath.Join(s.results(), name)
		if !strings.HasPrefix(name, network+"-") || kept[name] {
			continue
		}
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			list = append(list, &entry{path: path})
		}
	}
	return list, nil
}

// notBegun reports whether the entry is an intent that no plugin ran after.
func notBegun(e *entry) bool { return e != nil && errors.Is(e.err, errNotBegun) }
