package builtin

import (
	"context"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// Status reports whether the plugin of a STATUS call could serve an ADD now. A built-in plugin can tell in every version; a program is
// only asked in a version that has STATUS, and asked says whether it was.
func (r *Runner) Status(ctx context.Context, c libcni.Call) (asked bool, err error) {
	defer r.recovered(c, &err)
	loc, err := r.Where(c.Type, c.Dirs)
	if err != nil {
		return true, notAvailable(err, c)
	}
	asked = true // also if it panics
	if !loc.BuiltIn {
		if !cni.AtLeast(versionOf(c), cni.VerbStatus.Since()) {
			return false, nil
		}
		if _, err := r.cfg.Programs.Run(ctx, []libcni.Call{c}); err != nil {
			return true, annotate(err, c)
		}
		return true, nil
	}
	step, err := r.newerStep(c)
	if err != nil {
		return true, annotate(err, c)
	}
	if err := r.engine.Status(ctx, step); err != nil {
		return true, annotate(err, c)
	}
	return true, nil
}

// notAvailable gives a plugin that can't be run the code of a STATUS.
func notAvailable(err error, c libcni.Call) error {
	e := *cni.AsError(annotate(err, c))
	e.Code = cni.CodeNotAvailable
	return &e
}
