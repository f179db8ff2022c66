// Command cleat-cni is every plugin of Cleat in one program. It is the plugin it is called as
// (a link bridge -> cleat-cni), or the one its first argument names (cleat-cni bridge). Called by
// its own name without either, or with --help, it tells about the plugins; --list prints their names, a line each,
// and --version its own. Called as pause or monitor it is one of the node agent's two small processes, see internal/agent.
//
// It is started once a plugin and attachment, so it starts fast: no command line library, and no package
// whose initialisation takes time.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/monitor"
	"github.com/cleat-cni/cleat/internal/agent/pause"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/engine"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins"
)

// version is set by the linker.
var version = "dev"

const self = "cleat-cni"

func main() {
	typ := chosen(os.Args)
	switch typ {
	case pause.Name:
		os.Exit(pause.Main(os.Args[1:]))
	case monitor.Name:
		os.Exit(monitor.Main(context.Background(), os.Args[1:]))
	case "--list":
		for _, name := range names() {
			fmt.Println(name)
		}
		return
	}
	called := os.Getenv("CNI_COMMAND") != ""
	if !called {
		switch typ {
		case "":
			list(os.Stderr)
			return
		case "--help", "-h", "help":
			list(os.Stdout)
			return
		case "--version", "version":
			fmt.Println(self, version)
			return
		}
	}
	runner, err := newRunner()
	if err != nil {
		os.Exit(fail(err))
	}
	info, p, ok := runner.Plugin(typ)
	switch {
	case ok:
		plugin.Main(info, p)
	case called:
		os.Exit(fail(unknown(typ)))
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", self, unknown(typ))
		os.Exit(2)
	}
}

// chosen returns the plugin that the arguments name; "" for none. Kernels before 5.18 start a program without any.
func chosen(args []string) string {
	if len(args) == 0 {
		return ""
	}
	if name := filepath.Base(args[0]); !strings.HasPrefix(name, self) { // a copy may carry its version in its name
		return name
	}
	if len(args) > 1 {
		return args[1]
	}
	return ""
}

func newRunner() (*builtin.Runner, error) {
	return engine.New(engine.Options{Stderr: os.Stderr, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
}

// list prints what a person wants to know who starts the program by hand.
func list(w io.Writer) {
	fmt.Fprintf(w, "%s %s: CNI plugins in one program, each called by a link of its name or as the first argument\n\n", self, version)
	for _, d := range plugins.All() {
		fmt.Fprintf(w, "  %-12s %s\n", d.Info.Type, d.Info.About)
	}
	fmt.Fprintf(w, "\nCNI protocol versions supported: %s\n", strings.Join(cni.Versions(), ", "))
}

// names lists the plugins.
func names() []string {
	var list []string
	for _, d := range plugins.All() {
		list = append(list, d.Info.Type)
	}
	slices.Sort(list)
	return list
}

func unknown(typ string) error {
	names := names()
	if typ == "" {
		return cni.Errorf(cni.CodeInvalidEnvironment, "%s is called by its own name: which plugin is meant?", self).
			WithHint("call it by a link of the plugin's name; there is %s", strings.Join(names, ", "))
	}
	e := cni.Errorf(cni.CodeInvalidEnvironment, "no plugin %q in %s", typ, self)
	if near := nearmiss.Of(typ, names); len(near) > 0 {
		return e.WithHint("did you mean %s?", strings.Join(near, " or "))
	}
	return e.WithHint("there is %s", strings.Join(names, ", "))
}

// fail answers a runtime whose call reached no plugin, and returns the exit status.
func fail(err error) int {
	e := *cni.AsError(err)
	e.CNIVersion = cni.Current
	out, err := json.Marshal(&e)
	if err == nil {
		_, err = os.Stdout.Write(out)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v (%v)\n", self, &e, err)
	}
	return 1
}
