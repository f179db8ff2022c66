// Package images gives the node agent its images: from OCI layouts and archives in folders of this machine, unpacked once each. There is no
// registry in it; what is not in the folders is not there, whatever a pull policy says.
//
// A folder holds archives (*.tar, of docker save or of an OCI layout), and layouts, which are folders themselves; or it is a
// layout. An image's names are those that the archive or the layout's index gives it.
package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Config configures a Store.
type Config struct {
	Dirs []string // where images are looked for, in this order
	Root string   // required: the folder that images are unpacked into
}

// Store has images. It is safe for concurrent use.
type Store struct {
	cfg Config

	mu   sync.Mutex
	busy map[string]*sync.Mutex // by digest, while it is unpacked
}

// New returns a Store. The folders may come later.
func New(cfg Config) *Store { return &Store{cfg: cfg, busy: map[string]*sync.Mutex{}} }

// Image is an unpacked image.
type Image struct {
	ID         string // digest of its manifest
	RootFS     string // its files
	Entrypoint []string
	Cmd        []string
	Env        []string
	WorkingDir string
	User       string
	StopSignal string
}

// NotFoundError says that no folder has an image, and which ones there are.
type NotFoundError struct {
	Ref   string
	Dirs  []string
	Names []string
	Bad   []error // archives and layouts that can't be read, in one of which it may be
}

// Error says all of it.
func (e NotFoundError) Error() string {
	var text strings.Builder
	text.WriteString(fmt.Sprintf("no image %s in %s", e.Ref, strings.Join(e.Dirs, ", ")))
	if len(e.Names) > 0 {
		text.WriteString("; there is " + strings.Join(e.Names, ", "))
	}
	for _, err := range e.Bad {
		text.WriteString("; " + err.Error())
	}
	return text.String()
}

// Get returns the image of a reference for this machine's platform, unpacked.
func (s *Store) Get(ctx context.Context, ref string) (*Image, error) {
	want, err := name.ParseReference(ref, name.WithDefaultTag("latest"))
	if err != nil {
		return nil, fmt.Errorf("read the reference: %w", err)
	}
	found, err := s.find(want.Name())
	if err != nil {
		if missing, ok := errors.AsType[NotFoundError](err); ok {
			missing.Ref = ref
			return nil, missing
		}
		return nil, err
	}
	img, err := found.image()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", found.path, err)
	}
	unpacked, err := s.unpacked(ctx, img)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", found.path, err)
	}
	return unpacked, nil
}

// Names lists the names of all images, sorted.
func (s *Store) Names() ([]string, error) {
	_, err := s.find("")
	if missing, ok := errors.AsType[NotFoundError](err); ok {
		return missing.Names, errors.Join(missing.Bad...)
	}
	return nil, err
}

// candidate is an image in an archive or a layout.
type candidate struct {
	path  string
	image func() (v1.Image, error)
}

// find looks for an image by its full name.
func (s *Store) find(want string) (candidate, error) {
	missing := NotFoundError{Ref: want, Dirs: s.cfg.Dirs}
	for _, dir := range s.cfg.Dirs {
		sources, err := sourcesIn(dir)
		if err != nil {
			return candidate{}, err
		}
		for _, path := range sources {
			named, err := s.open(path)
			if err != nil {
				missing.Bad = append(missing.Bad, fmt.Errorf("%s can't be read: %w", path, err))
				continue
			}
			for full, image := range named {
				if full == want {
					return candidate{path, image}, nil
				}
				missing.Names = append(missing.Names, full)
			}
		}
	}
	slices.Sort(missing.Names)
	missing.Names = slices.Compact(missing.Names)
	return candidate{}, missing
}

// sourcesIn lists the archives and layouts of a folder, sorted. One that isn't there has none.
func sourcesIn(dir string) ([]string, error) {
	if isLayout(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var list []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if isLayout(path) || filepath.Ext(path) == ".tar" && !strings.HasPrefix(e.Name(), ".") {
			list = append(list, path)
		}
	}
	return list, nil
}

func isLayout(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "oci-layout"))
	return err == nil
}

// open returns what opens the images of an archive or a layout, by their full names.
func (s *Store) open(path string) (map[string]func() (v1.Image, error), error) {
	if isLayout(path) {
		return openLayout(path, filepath.Base(path))
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a FIFO would hold whoever opens it
		return nil, errors.New("no regular file")
	}
	images, err := openArchive(path)
	if err == nil {
		return images, nil
	}
	dir, layoutErr := s.extracted(path)
	if errors.Is(layoutErr, errNoLayout) {
		return nil, err
	}
	if layoutErr != nil {
		return nil, layoutErr
	}
	return openLayout(dir, strings.TrimSuffix(filepath.Base(path), ".tar"))
}

// openArchive opens an archive of docker save. One of an OCI layout is one as well, if whoever made it put manifest.json in, as docker and
// containerd do.
func openArchive(path string) (map[string]func() (v1.Image, error), error) {
	opener := tarball.Opener(func() (io.ReadCloser, error) { return os.Open(path) })
	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, err
	}
	images := map[string]func() (v1.Image, error){}
	for _, d := range manifest {
		for _, text := range d.RepoTags {
			tag, err := name.NewTag(text)
			if err != nil {
				return nil, err
			}
			images[tag.Name()] = func() (v1.Image, error) {
				img, err := tarball.Image(opener, &tag)
				if err != nil {
					return nil, err
				}
				return img, fits(img)
			}
		}
	}
	return images, nil
}

// The annotations of a layout's index that name an image: containerd's is the full name, the specification's often only a tag.
const (
	annotationName = "io.containerd.image.name"
	annotationRef  = "org.opencontainers.image.ref.name"
)

func openLayout(path, base string) (map[string]func() (v1.Image, error), error) {
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	images := map[string]func() (v1.Image, error){}
	add := func(full string, d v1.Descriptor) {
		if first, ok := images[full]; ok && first != nil && !forHere(d.Platform) {
			return // of several platforms under one name, this machine's
		}
		images[full] = func() (v1.Image, error) { return ofPlatform(index, d) }
	}
	for _, d := range manifest.Manifests {
		for _, text := range layoutNames(base, d) {
			if ref, err := name.ParseReference(text, name.WithDefaultTag("latest")); err == nil {
				add(ref.Name(), d)
			}
		}
	}
	return images, nil
}

// layoutNames are the names of an image in a layout called base. One without a name has that, and a tag alone is one of it.
func layoutNames(base string, d v1.Descriptor) []string {
	var list []string
	if full := d.Annotations[annotationName]; full != "" {
		list = append(list, full)
	}
	switch ref := d.Annotations[annotationRef]; {
	case ref == "" && len(list) == 0:
		list = append(list, base)
	case ref == "":
	case strings.ContainsAny(ref, ":/"):
		list = append(list, ref)
	default:
		list = append(list, base+":"+ref)
	}
	return list
}

// ofPlatform opens an image, or of an index of several the one for this machine.
func ofPlatform(index v1.ImageIndex, d v1.Descriptor) (v1.Image, error) {
	if d.MediaType.IsIndex() {
		inner, err := index.ImageIndex(d.Digest)
		if err != nil {
			return nil, err
		}
		manifest, err := inner.IndexManifest()
		if err != nil {
			return nil, err
		}
		var others []string
		for _, m := range manifest.Manifests {
			if forHere(m.Platform) {
				return ofPlatform(inner, m)
			}
			others = append(others, m.Platform.String())
		}
		return nil, fmt.Errorf("it has %s, and this machine is %s", cmp.Or(strings.Join(others, ", "), "no image"), platform())
	}
	img, err := index.Image(d.Digest)
	if err != nil {
		return nil, err
	}
	if got, err := img.Digest(); err != nil || got != d.Digest {
		return nil, errors.Join(err, fmt.Errorf("it is corrupt: the digest of its manifest is %s and not %s", got, d.Digest))
	}
	return img, fits(img)
}

func platform() string { return "linux/" + runtime.GOARCH }

func forHere(p *v1.Platform) bool {
	return p != nil && p.OS == "linux" && p.Architecture == runtime.GOARCH
}

// fits refuses an image of another platform, and one whose configuration isn't that of its manifest.
func fits(img v1.Image) error {
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	if got, err := img.ConfigName(); err != nil || got != manifest.Config.Digest {
		return errors.Join(err, fmt.Errorf("it is corrupt: the digest of its configuration is %s and not %s", got, manifest.Config.Digest))
	}
	conf, err := img.ConfigFile()
	if err != nil {
		return err
	}
	if got := conf.OS + "/" + conf.Architecture; got != platform() {
		return fmt.Errorf("it is for %s, and this machine is %s", got, platform())
	}
	return nil
}
