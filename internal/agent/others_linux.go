package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/internal/atomicfile"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/libcni"
)

// others knows who else may have attached something to this agent's networks on this machine: agents with other roots, and those who record in the usual
// folder, as cleat add and other runtimes do. A collection by a list frees what is not on it, whoever made it.
type others struct {
	dir  string // of a file for each agent, with its root; it is empty after the machine was started anew, and so is what was attached
	root string // this agent's
	log  *slog.Logger
}

const othersDir = "/run/cleat/agents"

// announce tells the other agents of this one.
func (o *others) announce() error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("tell other agents of this one: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(o.dir, ControlGroup(o.root)), []byte(o.root+"\n"), 0o644); err != nil {
		return fmt.Errorf("tell other agents of this one: %w", err)
	}
	return nil
}

// stateDirs are the folders in which others record.
func (o *others) stateDirs() ([]string, error) {
	dirs := []string{libcni.DefaultStateDir}
	entries, err := os.ReadDir(o.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for other agents: %w", err)
	}
	roots := []string{DefaultRoot}
	for _, e := range entries {
		const longest = 8 << 10
		data, err := ownfile.Read(filepath.Join(o.dir, e.Name()), longest)
		if err != nil {
			o.log.Warn("another agent is not taken into account", "error", err)
			continue
		}
		roots = append(roots, strings.TrimSuffix(string(data), "\n"))
	}
	slices.Sort(roots)
	for _, root := range slices.Compact(roots) {
		if filepath.IsAbs(root) && root != o.root {
			dirs = append(dirs, StateDir(root))
		}
	}
	return dirs, nil
}

// attachments are those of others that live or are being made.
func (o *others) attachments(ctx context.Context) ([]*libcni.NetworkAttachment, error) {
	dirs, err := o.stateDirs()
	if err != nil {
		return nil, err
	}
	var list []*libcni.NetworkAttachment
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			continue // nobody has recorded anything there
		}
		c, err := libcni.New(libcni.Config{StateDir: dir, Runner: libcni.NewExecRunner(nil, nil), Log: o.log})
		if err != nil {
			return nil, err
		}
		all, err := c.Attachments(ctx)
		if err != nil {
			return nil, fmt.Errorf("look at what others have attached: %w", err)
		}
		list = append(list, slices.DeleteFunc(all, func(a *libcni.NetworkAttachment) bool {
			return a.State != libcni.StateAttached && a.State != libcni.StateAdding
		})...)
	}
	return list, nil
}
