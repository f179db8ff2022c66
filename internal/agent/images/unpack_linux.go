package images

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// unpacked unpacks an image, unless it was, and returns what containers need of it.
func (s *Store) unpacked(ctx context.Context, img v1.Image) (*Image, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	conf, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.cfg.Root, digest.Algorithm+"-"+digest.Hex)
	unlock := s.lock(digest.String())
	defer unlock()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		err = s.unpack(ctx, img, dir)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	c := conf.Config
	return &Image{ID: digest.String(), RootFS: filepath.Join(dir, "rootfs"), Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env,
		WorkingDir: c.WorkingDir, User: c.User, StopSignal: c.StopSignal}, nil
}

// lock lets one at a time unpack an image.
func (s *Store) lock(digest string) (unlock func()) {
	s.mu.Lock()
	m := s.busy[digest]
	if m == nil {
		m = &sync.Mutex{}
		s.busy[digest] = m
	}
	s.mu.Unlock()
	m.Lock()
	return m.Unlock
}

// unpack unpacks all layers into a temporary folder, which then gets its name: what has the name is whole.
func (s *Store) unpack(ctx context.Context, img v1.Image, dir string) error {
	if err := os.MkdirAll(s.cfg.Root, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(s.cfg.Root, ".unpacking-")
	if err != nil {
		return err
	}
	err = fill(ctx, img, filepath.Join(tmp, "rootfs"))
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

func fill(ctx context.Context, img v1.Image, rootfs string) error {
	if err := os.Mkdir(rootfs, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return err
	}
	defer root.Close()
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	conf, err := img.ConfigFile()
	if err != nil {
		return err
	}
	ids := conf.RootFS.DiffIDs
	if len(ids) != len(layers) {
		return fmt.Errorf("it is corrupt: it has %d layers, and its configuration %d", len(layers), len(ids))
	}
	for i, l := range layers {
		if err := applyLayer(ctx, root, l, ids[i]); err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return nil
}

// applyLayer unpacks one layer over those before it, and holds its content to the digest that the image's configuration gives.
func applyLayer(ctx context.Context, root *os.Root, l v1.Layer, want v1.Hash) error {
	r, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	u := unpacker{root: root, written: map[string]bool{}}
	if err := u.all(ctx, tar.NewReader(io.TeeReader(r, sum))); err != nil {
		return err
	}
	return verify(r, sum, want)
}

// verify reads a layer to its end, which tar doesn't, and compares its digest.
func verify(r io.Reader, sum hash.Hash, want v1.Hash) error {
	if _, err := io.Copy(sum, r); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.Hex {
		return fmt.Errorf("it is corrupt: its digest is sha256:%s and not %s", got, want)
	}
	return nil
}

// unpacker writes a layer's entries below a root, which os.Root keeps them in whatever their names and links say.
type unpacker struct {
	root    *os.Root
	written map[string]bool // by this layer, and so not what an opaque folder of it hides
	dirs    []dirTime       // folders, whose times are set last
}

type dirTime struct {
	name string
	time time.Time
}

func (u *unpacker) all(ctx context.Context, t *tar.Reader) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if err := u.entry(h, t); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
	for _, d := range u.dirs {
		if err := u.root.Chtimes(d.name, d.time, d.time); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// The names by which a layer removes what those before it have (OCI image specification 1.1, "Whiteouts").
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

var errClimbs = errors.New("the path leads out of the image")

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	clean := path.Clean(strings.TrimLeft(h.Name, "/"))
	if clean == "." {
		return nil
	}
	if !filepath.IsLocal(clean) {
		return errClimbs
	}
	dir, err := u.resolve(path.Dir(clean), 0)
	if err != nil {
		return err
	}
	if err := u.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	base := path.Base(clean)
	if base == opaque {
		return u.hideAll(dir)
	}
	if gone, ok := strings.CutPrefix(base, whiteout); ok {
		if gone == "" || gone == "." || gone == ".." {
			return errClimbs
		}
		return u.root.RemoveAll(path.Join(dir, gone))
	}
	name := path.Join(dir, base)
	if err := u.clear(name, h); err != nil {
		return err
	}
	if err := u.make(name, h, r); err != nil {
		return err
	}
	for at := name; at != "."; at = path.Dir(at) {
		u.written[at] = true
	}
	return u.attributes(name, h)
}

// maxLinks bounds how many links a path may lead through.
const maxLinks = 255

// resolve follows the links in a folder's path as they are meant inside of the image: an absolute one begins at its root.
func (u *unpacker) resolve(dir string, depth int) (string, error) {
	if depth > maxLinks {
		return "", errors.New("too many links in the path")
	}
	at := "."
	parts := strings.Split(path.Clean("/" + dir)[1:], "/")
	for i, part := range parts {
		if part == "" {
			continue
		}
		next := path.Join(at, part)
		info, err := u.root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if err != nil {
			return "", err
		}
		target, err := u.root.Readlink(next)
		if err != nil {
			return "", err
		}
		if !path.IsAbs(target) {
			target = path.Join("/", at, target)
		}
		return u.resolve(path.Join(append([]string{target}, parts[i+1:]...)...), depth+1)
	}
	return at, nil
}

// hideAll removes what layers before this one have in a folder.
func (u *unpacker) hideAll(dir string) error {
	f, err := u.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if name := path.Join(dir, n); !u.written[name] {
			if err := u.root.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes what is in the way of an entry; a folder stays for a folder.
func (u *unpacker) clear(name string, h *tar.Header) error {
	info, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() && h.Typeflag == tar.TypeDir {
		return nil
	}
	return u.root.RemoveAll(name)
}

func (u *unpacker) make(name string, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		u.dirs = append(u.dirs, dirTime{name, h.ModTime})
		if err := u.root.Mkdir(name, 0o755); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case tar.TypeReg:
		f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		old := path.Clean(strings.TrimLeft(h.Linkname, "/"))
		if !filepath.IsLocal(old) {
			return errClimbs
		}
		dir, err := u.resolve(path.Dir(old), 0)
		if err != nil {
			return err
		}
		return u.root.Link(path.Join(dir, path.Base(old)), name)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return u.node(name, h)
	}
	return fmt.Errorf("an entry of type %q", h.Typeflag)
}

// node makes a device or a FIFO. Devices are those that the container's control group lets it use.
func (u *unpacker) node(name string, h *tar.Header) error {
	dir, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	kind := map[byte]uint32{tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK, tar.TypeFifo: unix.S_IFIFO}[h.Typeflag]
	return unix.Mknodat(int(dir.Fd()), path.Base(name), kind|0o600, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
}

// attributes sets owner, mode, extended attributes and time. The owner comes first, since a change of it takes setuid away.
func (u *unpacker) attributes(name string, h *tar.Header) error {
	if h.Typeflag == tar.TypeLink {
		return nil // they are those of the file that it is
	}
	if err := u.root.Lchown(name, h.Uid, h.Gid); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil
	}
	if err := u.root.Chmod(name, h.FileInfo().Mode()); err != nil {
		return err
	}
	if err := u.xattrs(name, h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

const xattrRecord = "SCHILY.xattr."

// xattrs sets extended attributes of files and folders, such as security.capability. Those that the file system doesn't have are
// left out.
func (u *unpacker) xattrs(name string, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, xattrRecord)
		if !ok || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			continue
		}
		f, err := u.root.Open(name)
		if err != nil {
			return err
		}
		err = unix.Fsetxattr(int(f.Fd()), attr, []byte(value), 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("set %s: %w", attr, err)
		}
	}
	return nil
}
