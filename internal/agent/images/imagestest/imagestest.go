// Package imagestest makes images for tests.
package imagestest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is an entry of a layer. A name that ends in a slash is a folder's; text that begins with -> is a link's target, with =>
// a hard link's.
type File struct {
	Name, Text string
	Mode       int64
}

// Layer returns a layer whose entries belong to user 7 and group 8.
func Layer(t testing.TB, files ...File) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Mode: f.Mode, Size: int64(len(f.Text)), Typeflag: tar.TypeReg, Uid: 7, Gid: 8}
		if target, ok := strings.CutPrefix(f.Text, "->"); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		} else if target, ok := strings.CutPrefix(f.Text, "=>"); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, target, 0
		} else if strings.HasSuffix(f.Name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(f.Text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Image returns an image for linux on an architecture.
func Image(t testing.TB, arch string, conf v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", arch, conf
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

// Put writes an image as a layout, with annotations that name it.
func Put(t testing.TB, dir string, img v1.Image, annotations map[string]string) {
	t.Helper()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img, layout.WithAnnotations(annotations)); err != nil {
		t.Fatal(err)
	}
}

// Busybox writes a layout with the image busybox:1, made of the program at path: a shell and some tools, whose entry point runs
// a script.
func Busybox(t testing.TB, dir, path string) {
	t.Helper()
	conf := v1.Config{Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"echo from the image"}, Env: []string{"FROM=image", "PATH=/bin"}}
	Put(t, dir, Image(t, runtime.GOARCH, conf, Tools(t, path)), map[string]string{"org.opencontainers.image.ref.name": "busybox:1"})
}

// Archive writes an archive, which container runtimes read, with an image under a name: the tools of the program at path, and what it runs.
func Archive(t testing.TB, file, name, path string, command ...string) {
	t.Helper()
	dir := t.TempDir()
	img := Image(t, runtime.GOARCH, v1.Config{Env: []string{"PATH=/bin"}, Cmd: command}, Tools(t, path))
	Put(t, dir, img, map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name})
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), os.WriteFile(file, buf.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Tools returns a layer with the program busybox at path, and links by which it is a shell and some tools.
func Tools(t testing.TB, path string) v1.Layer {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := []File{{"bin/busybox", string(data), 0o755}, {"etc/passwd", "root:x:0:0::/:/bin/sh\nweb:x:101:102::/:/bin/sh\n", 0o644}}
	applets := []string{"sh", "sleep", "cat", "id", "hostname", "echo", "touch", "ls", "stat", "ip", "grep", "dd", "kill", "mount", "mkdir", "httpd",
		"nc"}
	for _, applet := range applets {
		files = append(files, File{"bin/" + applet, "->busybox", 0o777})
	}
	return Layer(t, files...)
}
