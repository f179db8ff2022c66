package images

import (
	"archive/tar"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/agent/images/imagestest"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// file is an imagestest.File.
type file struct {
	name, text string
	mode       int64
}

func layer(t *testing.T, files ...file) v1.Layer {
	var list []imagestest.File
	for _, f := range files {
		list = append(list, imagestest.File{Name: f.name, Text: f.text, Mode: f.mode})
	}
	return imagestest.Layer(t, list...)
}

func image(t *testing.T, arch string, layers ...v1.Layer) v1.Image {
	return imagestest.Image(t, arch, v1.Config{Entrypoint: []string{"/bin/web"}, Cmd: []string{"-v"}, Env: []string{"A=1"}, User: "7", WorkingDir: "/srv", StopSignal: "SIGQUIT"}, layers...)
}

// put writes an image as a layout with a name.
func put(t *testing.T, dir string, img v1.Image, annotations map[string]string) {
	imagestest.Put(t, dir, img, annotations)
}

func save(t *testing.T, path, tag string, img v1.Image) {
	t.Helper()
	ref, err := name.NewTag(tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(path, ref, img); err != nil {
		t.Fatal(err)
	}
}

// archive makes a tar of a folder, as skopeo makes one of a layout.
func archive(t *testing.T, dir, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// tree lists what is below a folder: folders with a slash, links with their target, files with their text.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, path)
		if err != nil || relErr != nil || rel == "." {
			return errors.Join(err, relErr)
		}
		switch {
		case d.IsDir():
			rel += "/"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			rel += "->" + target
		default:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel += "=" + string(data)
		}
		list = append(list, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func newStore(t *testing.T) (*Store, string) {
	t.Helper()
	sandbox.Require(t) // owners and modes need root
	dir := t.TempDir()
	return New(Config{Dirs: []string{dir}, Root: filepath.Join(t.TempDir(), "images")}), dir
}

func TestGetFindsByName(t *testing.T) {
	s, dir := newStore(t)
	img := image(t, runtime.GOARCH, layer(t, file{"bin/web", "x", 0o755}))
	put(t, filepath.Join(dir, "plain"), img, nil)
	put(t, filepath.Join(dir, "tagged"), img, map[string]string{annotationRef: "v2"})
	put(t, filepath.Join(dir, "full"), img, map[string]string{annotationName: "example.com/a/web:1"})
	save(t, filepath.Join(dir, "docker.tar"), "saved:3", img)
	oci := filepath.Join(t.TempDir(), "oci")
	put(t, oci, img, map[string]string{annotationRef: "v4"})
	archive(t, oci, filepath.Join(dir, "skopeo.tar"))
	for _, ref := range []string{"plain", "plain:latest", "docker.io/library/plain", "tagged:v2", "example.com/a/web:1", "saved:3", "skopeo:v4"} {
		got, err := s.Get(t.Context(), ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		want := &Image{ID: got.ID, RootFS: got.RootFS, Entrypoint: []string{"/bin/web"}, Cmd: []string{"-v"}, Env: []string{"A=1"}, User: "7", WorkingDir: "/srv", StopSignal: "SIGQUIT"}
		if diff := cmp.Diff(want, got); diff != "" || tree(t, got.RootFS)[1] != "bin/web=x" {
			t.Errorf("%s (-want +got):\n%s%v", ref, diff, tree(t, got.RootFS))
		}
	}
	_, err := s.Get(t.Context(), "plain:2")
	if err == nil || !strings.Contains(err.Error(), "no image plain:2 in "+dir) || !strings.Contains(err.Error(), "index.docker.io/library/plain:latest") {
		t.Errorf("an image that isn't there: %v, want what there is", err)
	}
	if _, err := s.Get(t.Context(), "UPPER::bad"); err == nil {
		t.Error("a bad reference is fine")
	}
}

func TestOtherPlatform(t *testing.T) {
	s, dir := newStore(t)
	put(t, filepath.Join(dir, "other"), image(t, "mips"), nil)
	if _, err := s.Get(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "it is for linux/mips, and this machine is linux/"+runtime.GOARCH) {
		t.Errorf("an image of another platform: %v", err)
	}
	both := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image(t, "mips"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "mips"}}},
		mutate.IndexAddendum{Add: image(t, runtime.GOARCH, layer(t, file{"here", "", 0o644})), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	p, err := layout.Write(filepath.Join(dir, "both"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendIndex(both); err != nil {
		t.Fatal(err)
	}
	img, err := s.Get(t.Context(), "both")
	if err != nil || len(tree(t, img.RootFS)) != 1 {
		t.Errorf("an index with both: %v", err)
	}
}

func TestLayers(t *testing.T) {
	s, dir := newStore(t)
	img := image(t, runtime.GOARCH,
		layer(t, file{"etc/", "", 0o755}, file{"etc/a", "old", 0o600}, file{"etc/b", "b", 0o644}, file{"usr/lib/", "", 0o755}, file{"lib", "->/usr/lib", 0o777},
			file{"bin/su", "su", 0o4755}, file{"opt/old/x", "x", 0o644}, file{"was-dir/y", "y", 0o644}),
		layer(t, file{"etc/a", "new", 0o640}, file{"etc/.wh.b", "", 0o644}, file{"lib/z.so", "z", 0o644}, file{"bin/su2", "=>bin/su", 0o644},
			file{"opt/old/new", "n", 0o644}, file{"opt/old/.wh..wh..opq", "", 0o644}, file{"was-dir", "now a file", 0o644}))
	put(t, filepath.Join(dir, "img"), img, nil)
	got, err := s.Get(t.Context(), "img")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"bin/", "bin/su=su", "bin/su2=su", "etc/", "etc/a=new", "lib->/usr/lib", "opt/", "opt/old/", "opt/old/new=n", "usr/", "usr/lib/", "usr/lib/z.so=z", "was-dir=now a file"}
	if diff := cmp.Diff(want, tree(t, got.RootFS)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(got.RootFS, "bin/su"))
	if err != nil || info.Mode() != 0o755|fs.ModeSetuid {
		t.Errorf("mode %v, %v: setuid is lost", info.Mode(), err)
	}
}

func TestHostileLayers(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	for _, tt := range []struct {
		name  string
		files []file
		err   string // "" if it is harmless inside
	}{
		{"climbs", []file{{"../victim", "x", 0o644}}, "leads out"},
		{"climbs-later", []file{{"a/../../victim", "x", 0o644}}, "leads out"},
		{"absolute-name", []file{{victim, "x", 0o644}}, ""},
		{"through-an-absolute-link", []file{{"l", "->" + outside, 0o777}, {"l/victim", "x", 0o644}}, ""},
		{"through-a-climbing-link", []file{{"l", "->../../../../../../.." + outside, 0o777}, {"l/victim", "x", 0o644}}, ""},
		{"over-a-link", []file{{"l", "->" + victim, 0o777}, {"l", "x", 0o644}}, ""},
		{"links-in-a-circle", []file{{"l", "->m", 0o777}, {"m", "->l", 0o777}, {"l/x", "x", 0o644}}, "too many links"},
		{"hard-link-out", []file{{"h", "=>../../../../../../etc/passwd", 0o644}}, "leads out"},
		{"hard-link-through-a-link", []file{{"l", "->/etc", 0o777}, {"h", "=>l/passwd", 0o644}}, "no such file"},
		{"whiteout-of-the-parent", []file{{"a/.wh...", "", 0o644}}, "leads out"},
		{"whiteout-of-itself", []file{{"a/.wh..", "", 0o644}}, "leads out"},
		{"whiteout-of-nothing", []file{{"a/.wh.", "", 0o644}}, "leads out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, dir := newStore(t)
			put(t, filepath.Join(dir, "evil"), image(t, runtime.GOARCH, layer(t, tt.files...)), nil)
			_, err := s.Get(t.Context(), "evil")
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("unpack: %v, want %q", err, tt.err)
			}
			if _, err := os.Lstat(victim); err == nil {
				t.Error("a file outside was written")
				os.Remove(victim)
			}
			if left, err := filepath.Glob(filepath.Join(s.cfg.Root, ".*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestCorrupt(t *testing.T) {
	s, dir := newStore(t)
	img := image(t, runtime.GOARCH, layer(t, file{"a", strings.Repeat("text ", 1000), 0o644}))
	path := filepath.Join(dir, "img")
	put(t, path, img, nil)
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(path, "blobs", "sha256", digest.Hex)
	data, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"cut short": data[:len(data)/2], "changed": slices.Concat(data[:40], []byte{data[40] ^ 1}, data[41:]), "empty": nil} {
		if err := os.WriteFile(blob, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "img"); err == nil {
			t.Errorf("%s: it was unpacked", name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "junk.tar"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.tar"), 0o600); err != nil { // it would hold whoever opens it
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "junk.tar can't be read") || !strings.Contains(err.Error(), "pipe.tar can't be read") {
		t.Errorf("a junk archive: %v, want its name", err)
	}
	if err := os.WriteFile(blob, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "img"); err != nil {
		t.Errorf("mended: %v", err)
	}
}

func TestManyAtOnceUnpackOnce(t *testing.T) {
	s, dir := newStore(t)
	put(t, filepath.Join(dir, "img"), image(t, runtime.GOARCH, layer(t, file{"a", "b", 0o644})), nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.Get(t.Context(), "img"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if entries, err := os.ReadDir(s.cfg.Root); err != nil || len(entries) != 1 {
		t.Errorf("unpacked: %v, %v", entries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	put(t, filepath.Join(dir, "img2"), image(t, runtime.GOARCH, layer(t, file{"a", "c", 0o644})), nil)
	if _, err := s.Get(ctx, "img2"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func FuzzLayer(f *testing.F) {
	for _, names := range []string{"a", "../a", "a/.wh.b", "a\x00->b"} {
		f.Add(names, "text", byte(tar.TypeReg))
	}
	f.Add("l", "/etc", byte(tar.TypeSymlink))
	f.Add("h", "../x", byte(tar.TypeLink))
	f.Fuzz(func(t *testing.T, name, link string, kind byte) {
		outer := t.TempDir()
		if err := os.Mkdir(filepath.Join(outer, "in"), 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(filepath.Join(outer, "in"))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		u := unpacker{root: root, written: map[string]bool{}}
		for _, h := range []*tar.Header{{Name: "l", Linkname: link, Typeflag: tar.TypeSymlink}, {Name: name, Linkname: link, Typeflag: kind, Mode: 0o644}, {Name: "l/" + name, Typeflag: tar.TypeReg}} {
			if kind == tar.TypeChar || kind == tar.TypeBlock {
				continue
			}
			_ = u.entry(h, strings.NewReader("")) // whatever it says, nothing is outside
		}
		if entries, err := os.ReadDir(outer); err != nil || len(entries) != 1 {
			t.Errorf("outside: %v, %v", entries, err)
		}
	})
}
