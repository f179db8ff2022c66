package lint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// maxFile is the size of the largest file that is judged, in bytes: that of the largest that Cleat runs.
const maxFile = 1 << 20

// Load reads files and folders. Files of one folder that are named are judged together, and so are all files of a folder that is. What
// can't be read in a folder is no error but a finding; a path that can't be read is an error.
func Load(paths []string) ([]Folder, error) {
	var folders []Folder
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		if info.IsDir() {
			f, err := loadFolder(path)
			if err != nil {
				return nil, err
			}
			f.Mode = info.Mode()
			folders = append(folders, f)
			continue
		}
		file := loadFile(path)
		if file.Err != nil {
			return nil, fmt.Errorf("read configuration %s: %w", path, file.Err)
		}
		file.Given = true
		dir := filepath.Dir(path)
		i := slices.IndexFunc(folders, func(f Folder) bool { return !f.Whole && f.Path == dir })
		if i < 0 {
			added, err := loadAdded(dir)
			if err != nil {
				return nil, err
			}
			i = len(folders)
			folders = append(folders, Folder{Path: dir, Files: added})
		}
		if !slices.ContainsFunc(folders[i].Files, func(f File) bool { return f.Path == path }) {
			folders[i].Files = append(folders[i].Files, file)
		}
	}
	return folders, nil
}

func loadFolder(dir string) (Folder, error) {
	f := Folder{Path: dir, Whole: true}
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return f, fmt.Errorf("list configurations: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() && !(&document{File: File{Path: path}}).isConfig() {
			continue
		}
		f.Files = append(f.Files, loadFile(path))
	}
	added, err := loadAdded(dir)
	f.Files = append(f.Files, added...)
	return f, err
}

// loadAdded reads the files in the folders of a folder that may hold plugins of a network. Those of a folder that has no network's name are dropped
// when the networks are known.
func loadAdded(dir string) ([]File, error) {
	paths, err := filepath.Glob(filepath.Join(quoteMeta(dir), "*", "*.conf"))
	if err != nil {
		return nil, fmt.Errorf("list configurations: %w", err)
	}
	var files []File
	for _, path := range paths {
		if name := filepath.Base(path); name[0] == '.' || name[0] == '#' {
			continue
		}
		file := loadFile(path)
		file.Network = filepath.Base(filepath.Dir(path))
		files = append(files, file)
	}
	return files, nil
}

// quoteMeta keeps the letters of a path from being a pattern's.
func quoteMeta(path string) string {
	var quoted []byte
	for i := range len(path) {
		if slices.Contains([]byte(`*?[\`), path[i]) {
			quoted = append(quoted, '\\')
		}
		quoted = append(quoted, path[i])
	}
	return string(quoted)
}

// loadFile reads a file; what keeps it from being read is in it. Nothing but a regular file is opened: a pipe would wait for its
// writer.
func loadFile(path string) File {
	f := File{Path: path}
	info, err := os.Stat(path)
	if err != nil {
		f.Err = cause(err)
		return f
	}
	f.Mode = info.Mode()
	switch {
	case info.IsDir():
		f.Err = errFolder
	case !info.Mode().IsRegular():
		f.Err = errIrregular
	default:
		f.Data, f.Err = readFile(path)
	}
	return f
}

var (
	errFolder    = errors.New("it is a folder, not a file")
	errIrregular = errors.New("it is not a regular file")
	errLarge     = fmt.Errorf("it has more than %d KiB", maxFile>>10)
)

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, errLarge
	}
	return data, cause(err)
}

// cause is an error without the path, which the finding has.
func cause(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
