package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

func (a *app) repairCmd() *cobra.Command {
	var t target
	var all bool
	c := &cobra.Command{
		Use:                   "repair NETWORK NETNS | repair --all",
		DisableFlagsInUseLine: true,
		Short:                 "Put back what check misses",
		Long: `Puts back what check misses of an attachment, or of all that are recorded, and
touches nothing that is right. It prints each object that it made or changed. With
--all, attachments that are being added or removed are passed over. Plugins that
are programs of their own are only checked. Exit status 3 says that something is
still not as it should be.`,
		Example: `  cleat repair mynet web
  cleat repair --all
  cleat repair --all -o json`,
		Args: func(c *cobra.Command, args []string) error {
			if all {
				return exactArgs()(c, args)
			}
			return exactArgs("NETWORK", "NETNS")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			ck, err := a.checker(all)
			if err != nil {
				return err
			}
			r := &repairer{checker: ck, changed: []finding{}}
			if all {
				err = r.all(ctx, a)
			} else {
				err = a.netnsHint(args[1], r.named(ctx, a, args, t))
			}
			return a.writeRepairs(r, err)
		},
		ValidArgsFunction: a.completeNetworkNetNS,
	}
	t.flags(c, a.cfg.Env)
	t.attached(c, a)
	c.Flags().BoolVar(&all, "all", false, "repair all attachments that are recorded")
	return c
}

// repairer gathers what was repaired, and as a checker what is still not right.
type repairer struct {
	*checker
	changed  []finding
	programs bool // programs found differences, which they alone could mend
	passed   int  // attachments that were being added or removed
}

// named repairs the attachment of NETWORK and NETNS.
func (r *repairer) named(ctx context.Context, a *app, args []string, t target) error {
	list, rt, err := a.attachmentOf(args, t)
	if err != nil {
		return err
	}
	return r.one(ctx, list, rt, libcni.RepairArgs{})
}

// all repairs every attachment that is recorded, and goes on after errors.
func (r *repairer) all(ctx context.Context, a *app) error {
	list, err := r.cni.Attachments(ctx)
	if err != nil {
		return err
	}
	configured, err := libcni.LoadDir(a.confDir)
	if err != nil {
		return err
	}
	bar := a.progress("repairing", len(list))
	defer bar.end()
	var errs []error
	over := false
	for _, at := range list {
		if errs, over = ended(ctx, errs); over {
			return errors.Join(errs...)
		}
		errs = append(errs, r.recorded(ctx, configured, at))
		bar.step()
	}
	if r.passed > 0 {
		a.note("%d being added or removed: passed over", r.passed)
	}
	return errors.Join(errs...)
}

// recorded repairs an attachment with the configuration it was added with. What is left of one that is no more is not for
// repair.
func (r *repairer) recorded(ctx context.Context, dir *libcni.Dir, at *libcni.NetworkAttachment) error {
	rt := &libcni.RuntimeConf{ContainerID: at.ContainerID, NetNS: at.NetNS, IfName: at.IfName}
	switch at.State {
	case libcni.StateAdding:
		r.passed++
		return nil
	case libcni.StateOrphan:
		r.say(at.Network, rt, "netns "+at.NetNS, "it is gone, and cleat gc frees what is left")
		return nil
	case libcni.StateBroken:
		r.say(at.Network, rt, "record "+at.File, at.Err.Error())
		return nil
	}
	list, err := recordedList(dir, at)
	if err != nil {
		return err
	}
	err = r.one(ctx, list, rt, libcni.RepairArgs{SkipBusy: true})
	if errors.Is(err, libcni.ErrBusy) || cni.CodeOf(err) == cni.CodeUnknownContainer {
		r.passed++ // it is being removed, or was meanwhile
		return nil
	}
	return err
}

// one repairs an attachment and checks what came of it.
func (r *repairer) one(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf, args libcni.RepairArgs) error {
	changed, err := r.cni.RepairNetworkList(ctx, list, rt, args)
	e, ok := errors.AsType[*cni.Error](err)
	ofProgram := ok && r.saidByProgram(e) // it is only checked, and ends the repair; what was put back before it stays so
	if err != nil && !ofProgram {
		return err
	}
	r.programs = r.programs || ofProgram
	for _, d := range changed {
		r.changed = append(r.changed, r.of(list.Name, rt, finding{Difference: d}))
	}
	switch {
	case err != nil:
		return r.judge(list.Name, rt, err)
	case len(changed) > 0:
		return r.checker.one(ctx, list, rt)
	}
	return nil
}

// writeRepairs prints what was repaired, and on standard error what is still wrong; then it returns errFound.
func (a *app) writeRepairs(r *repairer, err error) error {
	if err != nil && a.output.structured() {
		return err // which is the one object that is printed
	}
	if a.output.structured() {
		err = writeStructured(a.cfg.Stdout, a.output, r.changed)
	} else {
		for _, f := range r.changed {
			err = errors.Join(err, f.writeRepaired(a.cfg.Stdout))
		}
	}
	for _, f := range r.found {
		err = errors.Join(err, f.write(a.cfg.Stderr))
	}
	if r.programs {
		a.note("what a program of its own made is not repaired: del and add make it anew")
	}
	if err == nil && len(r.found) > 0 {
		err = errFound
	}
	return err
}

// writeRepaired prints a difference that is no more.
func (f finding) writeRepaired(w io.Writer) error {
	lines := []string{"was:     " + f.Have, "changed: " + f.Want}
	switch {
	case f.Have == "":
		lines = []string{"made:    " + f.Want}
	case f.Want == "":
		lines = []string{"removed: " + f.Have}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, printable(f.prefix()+line)); err != nil {
			return err
		}
	}
	return nil
}
