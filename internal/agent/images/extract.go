package images

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// errNoLayout says that an archive holds no OCI layout.
var errNoLayout = errors.New("it holds no OCI layout")

// extracted returns the folder with the OCI layout that an archive holds, and extracts it the first time. An archive that changes is
// another one.
func (s *Store) extracted(archive string) (string, error) {
	info, err := os.Stat(archive)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", archive, info.Size(), info.ModTime().UnixNano()))
	dir := filepath.Join(s.cfg.Root, "layout-"+hex.EncodeToString(sum[:16]))
	unlock := s.lock(dir)
	defer unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := os.MkdirAll(s.cfg.Root, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(s.cfg.Root, ".extracting-")
	if err != nil {
		return "", err
	}
	err = extractLayout(archive, tmp)
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	return dir, nil
}

// extractLayout extracts the files of a layout: its index, its marker and its blobs. Whatever else is in the archive is passed over.
func extractLayout(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	marked := false
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		name := path.Clean(h.Name)
		blob, err := path.Match("blobs/*/*", name)
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || !blob && name != "index.json" && name != "oci-layout" {
			continue
		}
		marked = marked || name == "oci-layout"
		if err := write(root, name, t); err != nil {
			return fmt.Errorf("extract %s: %w", name, err)
		}
	}
	if !marked {
		return errNoLayout
	}
	return nil
}

func write(root *os.Root, name string, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
