package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

// gcView is what a collection freed, or would free, and what it kept though nobody claims it.
type gcView struct {
	Freed []collectedView `json:"freed"`
	Kept  []collectedView `json:"kept"`
}

type collectedView struct {
	Kind        string `json:"kind"` // attachment, link, element, lease
	Name        string `json:"name"` // its line of netstate text, or network/container/interface
	Network     string `json:"network"`
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
	Why         string `json:"why"`
}

func (a *app) gcCmd() *cobra.Command {
	var how libcni.CollectArgs
	c := &cobra.Command{
		Use:   "gc [NETWORK]",
		Short: "Free what belongs to no live attachment",
		Long: `Frees what is left of attachments whose namespace is gone or whose add was not
finished, and what carries a network's mark but belongs to no recorded attachment:
links, nft elements and addresses. Without NETWORK it does so in every network that
is configured or has a record, also where its file is gone. Running adds are safe: it
waits for them. What no record claims but seems to be in use (its interface is
there, or its address answers) is listed and kept, unless --unknown is given.`,
		Example: `  cleat gc --dry-run
  cleat gc
  cleat gc mynet --dry-run -o json`,
		Args: atMostOne("NETWORK"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			network := ""
			if len(args) > 0 {
				network = args[0]
			}
			return a.gc(ctx, network, how)
		},
		ValidArgsFunction: a.completeNetwork,
	}
	f := c.Flags()
	f.BoolVar(&how.DryRun, "dry-run", false, "print what would be freed, and free nothing")
	f.BoolVar(&how.Unknown, "unknown", false, "also free what seems to be in use though no record claims it")
	return c
}

// gc collects in one network, or in all, and goes on after errors.
func (a *app) gc(ctx context.Context, network string, how libcni.CollectArgs) error {
	c, runner, err := a.runtime(false)
	if err != nil {
		return err
	}
	lists, err := a.gcLists(ctx, c, network)
	if lists == nil && err != nil {
		return err
	}
	errs := []error{err}
	over := false
	bar := a.progress("collecting", len(lists))
	var all []libcni.Collected
	for _, list := range lists {
		if errs, over = ended(ctx, errs); over {
			break
		}
		a.noteGC(runner, list, how.DryRun)
		found, err := c.CollectNetworkList(ctx, list, how)
		errs = append(errs, err)
		for _, f := range found {
			same := func(have libcni.Collected) bool { return have.Kind == f.Kind && have.Name == f.Name }
			if !slices.ContainsFunc(all, same) {
				all = append(all, f)
			}
		}
		bar.step()
	}
	bar.end()
	err = errors.Join(errs...)
	if err != nil && a.output.Structured() {
		return &partly{err, gcViewOf(all)}
	}
	return errors.Join(a.writeCollected(all, how.DryRun), err)
}

// partly is an error beside which something was done all the same, and is told with it.
type partly struct {
	err  error
	done gcView
}

func (e *partly) Error() string { return e.err.Error() }
func (e *partly) Unwrap() error { return e.err }

// gcLists are the configurations by which to collect: of each network the one in its file, and those that its attachments were
// added with, where they differ: what those left may lie elsewhere. Beside an error it returns those that can be read.
func (a *app) gcLists(ctx context.Context, c *libcni.CNI, network string) ([]*libcni.NetworkConfigList, error) {
	dir, err := libcni.LoadDir(a.confDir)
	if err != nil {
		return nil, err
	}
	var lists []*libcni.NetworkConfigList
	for _, list := range dir.Networks {
		if network == "" || list.Name == network {
			lists = append(lists, list)
		}
	}
	attachments, err := c.Attachments(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	seen := map[string]bool{}
	for _, at := range attachments {
		if at.Network == "" || network != "" && at.Network != network || seen[string(at.Config)] {
			continue
		}
		seen[string(at.Config)] = true
		list, err := libcni.ConfListFromBytes(at.Config)
		if err != nil {
			errs = append(errs, fmt.Errorf("recorded configuration in %s: %w", at.File, err))
			continue
		}
		if !slices.ContainsFunc(lists, func(have *libcni.NetworkConfigList) bool { return bytes.Equal(have.Bytes, list.Bytes) }) {
			lists = append(lists, list)
		}
	}
	if len(lists)+len(errs) == 0 && network != "" {
		_, err := a.network(network)
		return nil, err
	}
	if lists == nil {
		lists = []*libcni.NetworkConfigList{}
	}
	return lists, errors.Join(errs...)
}

// noteGC says what of a collection can't be seen.
func (a *app) noteGC(runner *builtin.Runner, list *libcni.NetworkConfigList, dryRun bool) {
	if list.DisableGC {
		a.note("network %s is left alone: it has disableGC", list.Name)
		return
	}
	for _, p := range list.Plugins {
		for _, typ := range []string{p.Network.Type, p.Network.IPAMType} {
			where, err := runner.Where(typ, a.pluginDirs)
			if typ == "" || err != nil || where.BuiltIn {
				continue
			}
			switch {
			case !cni.AtLeast(list.CNIVersion, cni.VerbGC.Since()):
				a.note("network %s: %s is a program and its version %s has no GC: it is not asked", list.Name, typ, list.CNIVersion)
			case dryRun:
				a.note("network %s: %s is a program: what it would free is not known", list.Name, typ)
			default:
				a.note("network %s: %s is a program: it is told to collect, and what it frees is not known", list.Name, typ)
			}
		}
	}
}

// note prints a remark on standard error.
func (a *app) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if a.jsonLog {
		a.log().Warn(text)
		return
	}
	fmt.Fprintf(a.cfg.Stderr, "note: %s\n", output.Printable(text))
}

func gcViewOf(all []libcni.Collected) gcView {
	v := gcView{Freed: []collectedView{}, Kept: []collectedView{}}
	for _, f := range all {
		one := collectedView{f.Kind, f.Name, f.Owner.Network, f.Owner.ContainerID, f.Owner.IfName, f.Why}
		if f.Kept {
			v.Kept = append(v.Kept, one)
		} else {
			v.Freed = append(v.Freed, one)
		}
	}
	return v
}

func (a *app) writeCollected(all []libcni.Collected, dryRun bool) error {
	v := gcViewOf(all)
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, v)
	}
	freed := "FREED"
	if dryRun {
		freed = "WOULD FREE"
	}
	return errors.Join(
		collectedTable(freed, v.Freed, "nothing to free").Write(a.cfg.Stdout, false),
		collectedTable("KEPT", v.Kept, "").Write(a.cfg.Stdout, false),
	)
}

func collectedTable(title string, list []collectedView, empty string) *output.Table {
	t := &output.Table{Head: []string{title, "OWNER", "WHY", "OBJECT"}, Empty: empty}
	for _, v := range list {
		owner := v.Network
		if v.ContainerID != "" {
			owner += "/" + v.ContainerID + "/" + v.IfName
		}
		object := v.Name
		if v.Kind == "attachment" {
			object = ""
		}
		t.Add([]string{v.Kind, owner, v.Why, object})
	}
	return t
}
