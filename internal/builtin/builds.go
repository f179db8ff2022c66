package builtin

import (
	"debug/buildinfo"
	"os"
	"runtime/debug"
	"sync"
)

// pluginProgram is the main package of the program that holds our plugins.
const pluginProgram = "github.com/cleat-cni/cleat/cmd/cleat-cni"

// builds knows which files are our plugin program of our own build. A file is read again only when its
// device, inode, size or modification time has changed.
type builds struct {
	own *debug.BuildInfo

	mu   sync.Mutex
	seen []seenFile // as many as there are different programs: a handful
}

type seenFile struct {
	fi os.FileInfo
	verdict
}

// verdict is what a file was found to be.
type verdict struct {
	ours bool
	what string // if not ours
}

// of examines the file at path, whose fi was read through links.
func (b *builds) of(path string, fi os.FileInfo) verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range b.seen {
		if !os.SameFile(s.fi, fi) {
			continue
		}
		if s.fi.Size() != fi.Size() || !s.fi.ModTime().Equal(fi.ModTime()) {
			b.seen[i] = seenFile{fi, b.examine(path)}
		}
		return b.seen[i].verdict
	}
	v := b.examine(path)
	b.seen = append(b.seen, seenFile{fi, v})
	return v
}

// examine reads what the Go linker wrote into the file about its build.
func (b *builds) examine(path string) verdict {
	info, err := buildinfo.ReadFile(path)
	switch {
	case err != nil:
		return verdict{what: "not a Go program"}
	case info.Path != pluginProgram:
		return verdict{what: "a program of " + nameOf(info)}
	case stamp(info) != stamp(b.own):
		return verdict{what: "cleat-cni of another build, " + nameOf(info)}
	default:
		return verdict{ours: true}
	}
}

func nameOf(info *debug.BuildInfo) string {
	name := info.Main.Path
	if name == "" {
		name = info.Path
	}
	if info.Main.Version != "" {
		name += " " + info.Main.Version
	}
	return name
}

// buildStamp identifies a build of the module: two programs of one build have the same.
type buildStamp struct {
	module, version, sum, revision, modified string
}

func stamp(info *debug.BuildInfo) buildStamp {
	s := buildStamp{module: info.Main.Path, version: info.Main.Version, sum: info.Main.Sum}
	for _, kv := range info.Settings {
		switch kv.Key {
		case "vcs.revision":
			s.revision = kv.Value
		case "vcs.modified":
			s.modified = kv.Value
		}
	}
	return s
}

// IsPluginProgram reports whether the file at path, or what it leads to, is a program that holds Cleat's plugins, of whatever build.
func IsPluginProgram(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Path == pluginProgram
}
