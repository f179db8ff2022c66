package plugin

import (
	"context"

	"github.com/cleat-cni/cleat/cni"
)

// Plugin is a CNI plugin: one method a verb. VERSION is answered by [Main] from Info.
// All methods may be called from several goroutines for different containers.
type Plugin interface {
	Add(ctx context.Context, req *Request) (*cni.Result, error)
	Del(ctx context.Context, req *Request) error
	Check(ctx context.Context, req *Request) error
	GC(ctx context.Context, req *Request) error
	Status(ctx context.Context, req *Request) error
}

// Info says what a plugin is.
type Info struct {
	Type     string   // required: the CNI type, its name as a program
	Versions []string // specification versions; default all of cni.Versions
	About    string   // one line, printed when the program is started by hand
}

// Finder finds the plugin that a configuration delegates to: one that is built in, or a
// program in CNI_PATH.
type Finder interface {
	Find(typ string, path []string) (Plugin, error)
}
