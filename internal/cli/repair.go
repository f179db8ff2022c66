package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

func (a *app) repairCmd() *cobra.Command {
	var s selection
	return s.command(a, &cobra.Command{
		Use:   "repair",
		Short: "Put back what check misses",
		Long: `Puts back what check misses of an attachment, or of all that are recorded, and
touches nothing that is right. It prints each object that it made or changed. With
--all, attachments that are being added or removed are passed over. Plugins that
are programs of their own are only checked. Exit status 3 says that something is
still not as it should be.`,
		Example: `  cleat repair mynet web
  cleat repair --all
  cleat repair --all -o json`,
	}, func(ctx context.Context, args []string) error {
		ck, err := a.checker(s.all)
		if err != nil {
			return err
		}
		r := &repairer{checker: ck, how: libcni.RepairArgs{SkipBusy: s.all}, changed: []finding{}}
		return a.writeRepairs(r, s.run(ctx, a, args, r))
	})
}

// repairer gathers what was repaired, and as a checker what is still not right.
type repairer struct {
	*checker
	how      libcni.RepairArgs
	changed  []finding
	programs bool // programs found differences, which they alone could mend
	passed   int  // attachments that were being added or removed
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
	err = r.one(ctx, list, rt)
	if errors.Is(err, libcni.ErrBusy) || cni.CodeOf(err) == cni.CodeUnknownContainer {
		r.passed++ // it is being removed, or was meanwhile
		return nil
	}
	return err
}

// one repairs an attachment and checks what came of it.
func (r *repairer) one(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	changed, err := r.cni.RepairNetworkList(ctx, list, rt, r.how)
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
	if err != nil && a.output.Structured() {
		return err // which is the one object that is printed
	}
	if a.output.Structured() {
		err = output.WriteStructured(a.cfg.Stdout, a.output, r.changed)
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
		if _, err := fmt.Fprintln(w, output.Printable(f.prefix()+line)); err != nil {
			return err
		}
	}
	return nil
}
