package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/doctor"
	"github.com/cleat-cni/cleat/internal/lint"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
)

// gatherer gathers the facts of this node.
type gatherer struct {
	app    *app
	cni    *libcni.CNI
	runner *builtin.Runner
	node   *lintNode
	facts  *doctor.Facts
}

func (a *app) gatherer() (*gatherer, error) {
	c, runner, err := a.runtime(false)
	if err != nil {
		return nil, err
	}
	root := os.DirFS(a.cfg.Root)
	return &gatherer{app: a, cni: c, runner: runner, node: &lintNode{cni: c, runner: runner, dirs: a.pluginDirs, root: root}, facts: &doctor.Facts{
		FS: root, Missing: map[doctor.Fact]string{}, Now: a.cfg.Now(),
		ConfDir: a.confDir, StateDir: a.stateDir, PluginDirs: a.pluginDirs,
	}}, nil
}

// gather asks everybody once. What only root can see is missing for others.
func (g *gatherer) gather(ctx context.Context) (*doctor.Facts, error) {
	f := g.facts
	var err error
	if f.Net, err = g.node.Net(); err != nil {
		return nil, err
	}
	if err := g.configurations(ctx); err != nil {
		return nil, err
	}
	g.plugins(ctx)
	for _, list := range f.Networks {
		calls, err := g.cni.Calls(cni.VerbAdd, list, trialAttachment())
		if err != nil {
			continue // lint tells of it
		}
		for _, r := range g.runner.Rehearse(ctx, calls) {
			f.Steps = append(f.Steps, doctor.Step{Network: list.Name, Rehearsal: r})
		}
	}
	g.kernel(ctx)
	g.disks()
	if g.app.cfg.EUID != 0 {
		for _, fact := range doctor.MissingFacts() {
			if f.Missing[fact] == "" {
				f.Missing[fact] = "only root can look"
			}
		}
		return f, ctx.Err()
	}
	g.features(ctx)
	g.readiness(ctx)
	g.state(ctx)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// trialAttachment is what plans are made for.
func trialAttachment() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: "cleat-doctor", NetNS: "/run/netns/cleat-doctor", IfName: "eth0"}
}

func (g *gatherer) configurations(ctx context.Context) error {
	f := g.facts
	dir, err := libcni.LoadDir(g.app.confDir)
	if err != nil {
		return err
	}
	f.Networks = dir.Networks
	f.Configs = len(dir.Networks) + len(dir.Ignored)
	if _, err := os.Stat(g.app.confDir); err != nil {
		return nil
	}
	folders, err := lint.Load([]string{g.app.confDir})
	if err != nil {
		return err
	}
	linter, err := lint.New(lint.Config{Plugins: g.runner.Definitions(), Node: g.node})
	if err != nil {
		return err
	}
	f.Findings, err = linter.Check(ctx, folders)
	return err
}

// plugins asks what runs each plugin of the networks, which lint has asked already.
func (g *gatherer) plugins(ctx context.Context) {
	index := map[string]int{}
	for _, list := range g.facts.Networks {
		for _, p := range list.Plugins {
			for _, typ := range []string{p.Network.Type, p.Network.IPAMType} {
				if typ == "" {
					continue
				}
				i, known := index[typ]
				if !known {
					i = len(g.facts.Plugins)
					index[typ] = i
					g.facts.Plugins = append(g.facts.Plugins, g.plugin(ctx, typ))
				}
				use := doctor.Use{Network: list.Name, Version: list.CNIVersion}
				if one := &g.facts.Plugins[i]; !slices.Contains(one.Networks, use) {
					one.Networks = append(one.Networks, use)
				}
			}
		}
	}
}

func (g *gatherer) plugin(ctx context.Context, typ string) doctor.Plugin {
	in, err := g.node.Plugin(ctx, typ)
	p := doctor.Plugin{Type: typ, Where: in.Where, Versions: in.Versions, Err: err}
	if where, err := g.runner.Where(typ, g.app.pluginDirs); err == nil && !where.BuiltIn {
		p.OtherBuild = builtin.IsPluginProgram(where.Path)
	}
	return p
}

func (g *gatherer) kernel(ctx context.Context) {
	seen, err := g.runner.Observe(ctx, netstate.Query{NFTables: true, Forward: true, Firewalld: true})
	if err != nil {
		g.miss("kernel", err)
		return
	}
	g.facts.Kernel = seen
}

// miss notes that facts could not be gathered.
func (g *gatherer) miss(fact doctor.Fact, err error) { g.facts.Missing[fact] = err.Error() }

func (g *gatherer) features(ctx context.Context) {
	for _, trial := range doctor.Trials() {
		feature := doctor.Feature{Name: trial.Name, Err: g.runner.Supports(ctx, trial.State)}
		for _, s := range g.facts.Steps {
			feature.Used = feature.Used || trial.Uses(s.Plan.State)
		}
		g.facts.Features = append(g.facts.Features, feature)
	}
}

func (g *gatherer) readiness(ctx context.Context) {
	s := &asker{cni: g.cni, runner: g.runner, dirs: g.app.pluginDirs}
	for _, list := range g.facts.Networks {
		for i := range list.Plugins {
			asked := doctor.Readiness{Network: list.Name, Plugin: list.Plugins[i].Network.Type}
			if _, err := s.plugin(ctx, list, i); err != nil {
				e := cni.AsError(err)
				asked.Err, asked.Fix = fmt.Errorf("%s", e.Msg), e.Hint
			}
			g.facts.Ready = append(g.facts.Ready, asked)
		}
	}
}

// collectTime bounds the wait for operations that run, which a collection is kept apart from.
const collectTime = 2 * time.Second

func (g *gatherer) state(ctx context.Context) {
	f := g.facts
	all, err := g.app.attachments(ctx)
	if err != nil {
		g.miss("state", err)
		g.miss("left", err)
		return
	}
	f.Attachments = all
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	lists, err := g.app.gcLists(ctx, g.cni, "")
	errs, looked := []error{err}, len(lists) == 0
	for _, list := range lists {
		// Whether an owner lives whom no record names is not asked: that takes time, and cleat gc does.
		left, err := g.cni.CollectNetworkList(ctx, list, libcni.CollectArgs{DryRun: true, Unknown: true})
		errs = append(errs, err)
		looked = looked || err == nil || len(left) > 0
		for _, one := range left {
			if !slices.ContainsFunc(f.Left, func(have libcni.Collected) bool { return have.Name == one.Name }) {
				f.Left = append(f.Left, one)
			}
		}
	}
	if err := errors.Join(errs...); err != nil && !looked { // else what keeps a network from being looked at other checks tell
		g.miss("left", err)
	}
}

func (g *gatherer) disks() {
	dirs := []string{g.app.stateDir, "/run"}
	for _, s := range g.facts.Steps {
		if dir := s.Allocation.Pool.Dir; dir != "" && len(s.Allocation.Pool.Sets) > 0 && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	var seen []unix.Fsid
	for _, dir := range dirs {
		var st unix.Statfs_t
		if err := statfsAbove(filepath.Join(g.app.cfg.Root, dir), &st); err != nil || slices.Contains(seen, st.Fsid) {
			continue
		}
		seen = append(seen, st.Fsid)
		size := uint64(st.Bsize)
		g.facts.Disks = append(g.facts.Disks, doctor.Disk{
			Path: dir, FreeBytes: st.Bavail * size, Bytes: st.Blocks * size, FreeInodes: st.Ffree, AllInodes: st.Files,
		})
	}
}

// statfsAbove asks for the file system of a folder, or of what it will be made in.
func statfsAbove(dir string, st *unix.Statfs_t) error {
	for {
		err := unix.Statfs(dir, st)
		if err == nil || dir == filepath.Dir(dir) {
			return err
		}
		dir = filepath.Dir(dir)
	}
}
