package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/atomicfile"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

// pluginProgram is the file that holds all plugins.
const pluginProgram = "cleat-cni"

// installation is what install's flags say.
type installation struct {
	from      string
	binDir    string
	conflist  string
	uninstall bool
	force     bool
	dryRun    bool
}

// installStep is one thing that install does, or leaves.
type installStep struct {
	Action string `json:"action"` // copy, link, write, remove; keep for what stays as it is
	Path   string `json:"path"`
	Why    string `json:"why,omitempty"`
	do     func() error
}

func (a *app) installCmd() *cobra.Command {
	var in installation
	c := &cobra.Command{
		Use:   "install",
		Short: "Put the plugins where container runtimes look for them",
		Long: `Copies cleat-cni, which lies beside cleat, into the folder of plugins and makes a
link for each plugin; each file appears at once and whole. A program of that name that is
not Cleat's is kept, unless --force is given. If there is no network configuration, a
default one is written: a bridge with addresses of 10.87.0.0/16 and published ports.
--uninstall removes exactly what install made; what --force replaced does not come back.`,
		Example: `  cleat install --dry-run
  cleat install
  cleat install --bin-dir ./bin --conf-dir ./net.d --conflist pods
  cleat install --uninstall`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			return a.install(ctx, in)
		},
	}
	f := c.Flags()
	f.StringVar(&in.binDir, "bin-dir", "/opt/cni/bin", "folder of plugins")
	f.StringVar(&in.from, "from", "", "cleat-cni to install (default: the one beside cleat)")
	f.StringVar(&in.conflist, "conflist", "cleat", "name of the default network; \"\" writes none")
	f.BoolVar(&in.uninstall, "uninstall", false, "remove what install made")
	f.BoolVar(&in.force, "force", false, "replace programs that are not Cleat's too")
	f.BoolVar(&in.dryRun, "dry-run", false, "print what would be done, and do nothing")
	return c
}

func (a *app) install(ctx context.Context, in installation) error {
	if in.conflist != "" {
		if err := cni.CheckNetworkName(in.conflist); err != nil {
			return &usageError{fmt.Errorf("--conflist: %w", err)}
		}
	}
	var err error
	if in.binDir, err = filepath.Abs(in.binDir); err != nil {
		return err
	}
	var steps []installStep
	if in.uninstall {
		steps, err = a.uninstallSteps(in)
	} else {
		steps, err = a.installSteps(ctx, in)
	}
	if err != nil {
		return err
	}
	for i := 0; i < len(steps) && !in.dryRun; i++ {
		if steps[i].do == nil {
			continue
		}
		if err := steps[i].do(); err != nil {
			return err
		}
	}
	return a.writeInstall(steps, in)
}

func (a *app) writeInstall(steps []installStep, in installation) error {
	if a.output.Structured() {
		if steps == nil {
			steps = []installStep{}
		}
		return output.WriteStructured(a.cfg.Stdout, a.output, steps)
	}
	t := output.Table{Head: []string{"DONE", "PATH", "WHY"}, Empty: "nothing to do"}
	if in.dryRun {
		t.Head[0] = "WOULD"
	}
	for _, s := range steps {
		t.Add([]string{s.Action, s.Path, s.Why})
	}
	return t.Write(a.cfg.Stdout, false)
}

// installSteps looks at what is there and says what is to be done: the program first, so that no link leads nowhere.
func (a *app) installSteps(ctx context.Context, in installation) ([]installStep, error) {
	from, err := a.pluginFile(in)
	if err != nil {
		return nil, err
	}
	names, err := pluginNames(ctx, from)
	if err != nil {
		return nil, err
	}
	program, err := copyStep(from, in)
	if err != nil {
		return nil, err
	}
	steps := []installStep{program}
	for _, name := range names {
		step, err := linkStep(filepath.Join(in.binDir, name), in.force)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	if in.conflist == "" {
		return steps, nil
	}
	step, err := a.conflistStep(in.conflist)
	return append(steps, step), err
}

// pluginFile is the cleat-cni to install.
func (a *app) pluginFile(in installation) (string, error) {
	from := in.from
	if from == "" {
		if a.cfg.Program == "" {
			return "", usagef("where cleat lies is not known: name cleat-cni by --from")
		}
		from = filepath.Join(filepath.Dir(a.cfg.Program), pluginProgram)
	}
	if _, err := os.Stat(from); err != nil {
		return "", withHint(fmt.Errorf("find %s: %w", pluginProgram, err), "build it beside cleat (make build), or name it by --from")
	}
	if !builtin.IsPluginProgram(from) {
		return "", fmt.Errorf("%s is not Cleat's program of plugins", from)
	}
	return filepath.Abs(from)
}

// pluginNames asks the program which plugins it holds, which also proves that it runs here.
func pluginNames(ctx context.Context, program string) ([]string, error) {
	out, err := exec.CommandContext(ctx, program, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", program, err)
	}
	names := strings.Fields(string(out))
	for _, name := range names {
		if err := cni.CheckType(name); err != nil {
			return nil, fmt.Errorf("plugins of %s: %w", program, err)
		}
	}
	return names, nil
}

// copyStep puts the program in place.
func copyStep(from string, in installation) (installStep, error) {
	path := filepath.Join(in.binDir, pluginProgram)
	s := installStep{Action: "copy", Path: path, Why: "from " + from}
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return s, err
	case fi.IsDir():
		return s, fmt.Errorf("install %s: a directory has its name", path)
	case !builtin.IsPluginProgram(path) && !in.force:
		return s, withHint(fmt.Errorf("install %s: it is there and not Cleat's", path), "--force replaces it")
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return s, err
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		s.Action, s.Why = "keep", "it is up to date"
		return s, nil
	}
	s.do = func() error {
		if err := os.MkdirAll(in.binDir, 0o755); err != nil {
			return err
		}
		return atomicfile.Write(path, data, 0o755)
	}
	return s, nil
}

// linkStep puts the link of a plugin in place.
func linkStep(path string, force bool) (installStep, error) {
	s := installStep{Action: "link", Path: path, Why: "to " + pluginProgram}
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return s, err
	case isOwnLink(path):
		s.Action, s.Why = "keep", "it is up to date"
		return s, nil
	case fi.IsDir():
		s.Action, s.Why = "keep", "a directory has its name"
		return s, nil
	case builtin.IsPluginProgram(path):
		s.Why += ", in place of another build"
	case !force:
		s.Action, s.Why = "keep", "it is not Cleat's: it is used, and --force replaces it"
		return s, nil
	default:
		s.Why += ", in place of a program that is not Cleat's"
	}
	s.do = func() error { return atomicfile.Symlink(pluginProgram, path) }
	return s, nil
}

// isOwnLink reports whether path is a link as install makes it.
func isOwnLink(path string) bool {
	to, err := os.Readlink(path)
	return err == nil && to == pluginProgram
}

// conflistStep writes the default network, if there is no other.
func (a *app) conflistStep(name string) (installStep, error) {
	s := installStep{Action: "write", Path: a.conflistPath(name), Why: "there is no network"}
	dir, err := libcni.LoadDir(a.confDir)
	if err != nil {
		return s, err
	}
	if len(dir.Networks) > 0 || len(dir.Ignored) > 0 {
		s = installStep{Action: "keep", Path: a.confDir, Why: "it has configurations already"}
		return s, nil
	}
	s.do = func() error {
		if err := os.MkdirAll(a.confDir, 0o755); err != nil {
			return err
		}
		return atomicfile.Write(s.Path, defaultConflist(name), 0o644)
	}
	return s, nil
}

func (a *app) conflistPath(name string) string {
	return filepath.Join(a.confDir, "10-"+name+".conflist")
}

// defaultConflist is a bridge with addresses that other tools do not use by default, and published ports.
func defaultConflist(name string) []byte {
	return fmt.Appendf(nil, `{
  "cniVersion": "1.0.0",
  "cniVersions": ["0.4.0", "1.0.0", "1.1.0"],
  "name": %q,
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cleat0",
      "isDefaultGateway": true,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "10.87.0.0/16"}]]
      }
    },
    {
      "type": "portmap",
      "capabilities": {"portMappings": true}
    }
  ]
}
`, name)
}

// uninstallSteps says what of an installation is there: links as install makes them, the program, and the default network if nobody
// changed it.
func (a *app) uninstallSteps(in installation) ([]installStep, error) {
	entries, err := os.ReadDir(in.binDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var steps []installStep
	remove := func(path, why string) {
		steps = append(steps, installStep{Action: "remove", Path: path, Why: why, do: func() error { return os.Remove(path) }})
	}
	program := filepath.Join(in.binDir, pluginProgram)
	for _, e := range entries {
		if path := filepath.Join(in.binDir, e.Name()); isOwnLink(path) {
			remove(path, "a link to "+pluginProgram)
		}
	}
	if builtin.IsPluginProgram(program) {
		remove(program, "")
	}
	if in.conflist == "" {
		return steps, nil
	}
	path := a.conflistPath(in.conflist)
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case bytes.Equal(have, defaultConflist(in.conflist)):
		remove(path, "the default network")
	default:
		steps = append(steps, installStep{Action: "keep", Path: path, Why: "it was changed"})
	}
	return steps, nil
}
