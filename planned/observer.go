package planned

import (
	"context"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// Observer hears of the steps that a verb consists of. It is called by whoever runs the verb, at once and in order, and
// must be safe for concurrent use where verbs run at once.
type Observer interface {
	// Begin is called before a step, and returns the context in which it runs.
	Begin(ctx context.Context, a Action) context.Context
	// End is called after the step, with what Begin returned.
	End(ctx context.Context, a Action, err error)
}

// Action is one step of a verb.
type Action struct {
	Verb cni.Verb
	// Plugin is the type of the plugin that the step is of; those of several that it is done for at once are named together, in the order of
	// the list, as in bridge+portmap.
	Plugin string
	Step   string // one of those below
}

// The steps of verbs. Those that every plugin of a list has by itself come first.
const (
	StepIPAM    = "ipam"    // taking, giving back, checking or collecting addresses; of the IPAM plugin
	StepObserve = "observe" // reading what the plan depends on
	StepPlan    = "plan"    // saying what should exist
	StepApply   = "apply"   // making it
	StepDiff    = "diff"    // comparing it with what is there
	StepRemove  = "remove"  // removing it
	StepCollect = "collect" // removing what is nobody's
	StepTry     = "try"     // asking whether the kernel can make it
	StepExec    = "exec"    // running a plugin's program
)

type observerKey struct{}

// WithObserver returns a context whose verbs tell o of their steps, instead of whom they told before.
func WithObserver(ctx context.Context, o Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// Do does a step, and tells the context's observer of it if there is one.
func (a Action) Do(ctx context.Context, do func(context.Context) error) error {
	o, ok := ctx.Value(observerKey{}).(Observer)
	if !ok {
		return do(ctx)
	}
	inside := o.Begin(ctx, a)
	err := do(inside)
	o.End(inside, a, err)
	return err
}

// action is a step that is done for all steps of a list at once.
func action(steps []Step, name string) Action {
	types := make([]string, len(steps))
	for i, s := range steps {
		types[i] = s.Def.Info.Type
	}
	return Action{steps[0].Req.Verb, strings.Join(types, "+"), name}
}

// action is a step of one plugin.
func (s Step) action(name string) Action { return Action{s.Req.Verb, s.Def.Info.Type, name} }

// ipamAction is what the IPAM plugin does for the step.
func (s Step) ipamAction() Action { return Action{s.Req.Verb, s.Req.Conf.IPAMType, StepIPAM} }
