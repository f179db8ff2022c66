package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// finding is a difference, and with --all of which attachment.
type finding struct {
	Network     string `json:"network,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
	IfName      string `json:"ifname,omitempty"`
	netstate.Difference
	said bool // Have is not an object but what somebody said about Object
}

func (a *app) checkCmd() *cobra.Command {
	var s selection
	return s.command(a, &cobra.Command{
		Use:   "check",
		Short: "Compare attachments with the kernel",
		Long: `Compares an attachment, or all that are recorded, with what is in the kernel, and
prints each difference. Exit status 3 says that there are some. A program that is
not of this project says what it found as its error.`,
		Example: `  cleat check mynet web
  cleat check --all -o json`,
	}, func(ctx context.Context, args []string) error {
		ck, err := a.checker(s.all)
		if err != nil {
			return err
		}
		if err := s.run(ctx, a, args, ck); err != nil {
			return err
		}
		return a.writeFindings(ck.found)
	})
}

// checker gathers findings.
type checker struct {
	cni    *libcni.CNI
	runner *builtin.Runner
	dirs   []string
	name   bool // name the attachment in each finding
	found  []finding
}

func (a *app) checker(name bool) (*checker, error) {
	c, runner, err := a.runtime(false)
	if err != nil {
		return nil, err
	}
	return &checker{cni: c, runner: runner, dirs: a.pluginDirs, name: name, found: []finding{}}, nil
}

// all checks every attachment that is recorded. One that can't be checked is a finding like the others,
// so that it hides none.
func (ck *checker) all(ctx context.Context, a *app) error {
	list, err := ck.cni.Attachments(ctx)
	if err != nil {
		return err
	}
	configured, err := libcni.LoadDir(a.confDir)
	if err != nil {
		return err
	}
	for _, at := range list {
		rt := &libcni.RuntimeConf{ContainerID: at.ContainerID, NetNS: at.NetNS, IfName: at.IfName}
		switch at.State {
		case libcni.StateAdding: // not to be compared yet
		case libcni.StateOrphan:
			ck.add(at.Network, rt, netstate.Difference{Object: "netns " + at.NetNS, Want: "netns " + at.NetNS})
		case libcni.StateBroken:
			ck.say(at.Network, rt, "record "+at.File, at.Err.Error())
		default:
			err := ck.recorded(ctx, configured, at, rt)
			if ctx.Err() != nil {
				return err
			}
			if err != nil {
				ck.say(at.Network, rt, "check", err.Error())
			}
		}
	}
	return nil
}

// recorded checks an attachment with the configuration it was added with.
func (ck *checker) recorded(ctx context.Context, dir *libcni.Dir, at *libcni.NetworkAttachment, rt *libcni.RuntimeConf) error {
	list, err := recordedList(dir, at)
	if err != nil {
		return err
	}
	return ck.one(ctx, list, rt)
}

// recordedList is the configuration that an attachment was added with. That is the one in the folder if it did
// not change; the record alone lacks the plugins of the network's own folder where another library wrote it.
func recordedList(dir *libcni.Dir, at *libcni.NetworkAttachment) (*libcni.NetworkConfigList, error) {
	list, err := dir.Network(at.Network)
	if err == nil && string(list.Bytes) == string(at.Config) {
		return list, nil
	}
	if list, err = libcni.ConfListFromBytes(at.Config); err != nil {
		return nil, fmt.Errorf("recorded configuration of %s/%s: %w", at.Network, at.ContainerID, err)
	}
	return list, nil
}

// one checks an attachment and keeps what is different. Another error is returned.
func (ck *checker) one(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	return ck.judge(list.Name, rt, ck.cni.CheckNetworkList(ctx, list, rt))
}

// judge keeps what err says to be different, and returns any other error.
func (ck *checker) judge(network string, rt *libcni.RuntimeConf, err error) error {
	if err == nil {
		return nil
	}
	if differences, ok := planned.DifferencesOf(err); ok {
		ck.add(network, rt, differences...)
		return nil
	}
	if e, ok := errors.AsType[*cni.Error](err); ok && ck.saidByProgram(e) {
		ck.say(network, rt, e.Plugin, e.Msg)
		return nil
	}
	return err
}

// saidByProgram reports whether e is what a program found. Its codes from 100 on are the plugin's own (the field's
// library gives 999 to every error without one); those below say that the check itself failed.
func (ck *checker) saidByProgram(e *cni.Error) bool {
	const firstOwn = 100
	if e.Plugin == "" || e.Code < firstOwn {
		return false
	}
	where, err := ck.runner.Where(e.Plugin, ck.dirs)
	return err == nil && !where.BuiltIn
}

func (ck *checker) add(network string, rt *libcni.RuntimeConf, list ...netstate.Difference) {
	for _, d := range list {
		ck.keep(network, rt, finding{Difference: d})
	}
}

// say adds a finding in words.
func (ck *checker) say(network string, rt *libcni.RuntimeConf, about, text string) {
	ck.keep(network, rt, finding{Difference: netstate.Difference{Object: about, Have: text}, said: true})
}

func (ck *checker) keep(network string, rt *libcni.RuntimeConf, f finding) {
	ck.found = append(ck.found, ck.of(network, rt, f))
}

// of names the attachment in a finding, where that is to be.
func (ck *checker) of(network string, rt *libcni.RuntimeConf, f finding) finding {
	if ck.name {
		f.Network, f.ContainerID, f.IfName = network, rt.ContainerID, rt.IfName
	}
	return f
}

// writeFindings prints findings, and returns errFound if there are any.
func (a *app) writeFindings(found []finding) error {
	var err error
	if a.output.Structured() {
		err = output.WriteStructured(a.cfg.Stdout, a.output, found)
	} else {
		for _, f := range found {
			err = errors.Join(err, f.write(a.cfg.Stdout))
		}
	}
	if err == nil && len(found) > 0 {
		err = errFound
	}
	return err
}

func (f finding) write(w io.Writer) error {
	var lines []string
	switch {
	case f.Have == "":
		lines = []string{"missing:    " + f.Want}
	case f.said:
		lines = []string{f.Object + ": " + f.Have}
	case f.Want == "":
		lines = []string{"not wanted: " + f.Have}
	default:
		lines = []string{"want:       " + f.Want, "have:       " + f.Have}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, output.Printable(f.prefix()+line)); err != nil {
			return err
		}
	}
	return nil
}

// prefix says which attachment a line is about.
func (f finding) prefix() string {
	if f.Network == "" && f.ContainerID == "" {
		return ""
	}
	return f.Network + "/" + f.ContainerID + "/" + f.IfName + ": "
}
