package planned

import (
	"context"
	"errors"
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// kept is one owner's originals in a folder.
type kept struct {
	dir   string
	owner netstate.Owner
}

// keepOriginals stores how things are that the plans change and that may outlive the attachment, before they are changed. It returns what
// this call stored.
func (r *listRun) keepOriginals(ctx context.Context, session Session) ([]kept, error) {
	var all []kept
	for i, p := range r.plans {
		s, dir := p.Originals, r.bound[i].dir
		if s.IsEmpty() || dir == "" || r.engine.originals == nil {
			continue
		}
		s.Owner = p.State.Owner
		fresh, err := false, error(nil)
		if s.PodID, err = podID(ctx, session); err == nil {
			fresh, err = r.engine.originals.Save(dir, s)
		}
		if err != nil {
			return nil, errors.Join(at(r.steps[i], "keep originals", err), r.engine.forget(all))
		}
		if fresh {
			all = append(all, kept{dir, s.Owner})
		}
	}
	return all, nil
}

func (e *Engine) forget(all []kept) error {
	var errs []error
	for _, k := range all {
		errs = append(errs, e.originals.Remove(k.dir, k.owner))
	}
	return errors.Join(errs...)
}

// leftover is what a DEL works on.
type leftover struct {
	Session
	inPod bool
	state netstate.State // that goes
}

// restore puts back what the ADD of the steps changed, the last step's first, and forgets it. It does what it can: that something is
// gone or can't be put back keeps no DEL from going on, and is logged. What can't be forgotten is the error, for the next DEL to try.
func (e *Engine) restore(ctx context.Context, steps []Step, left leftover) error {
	var errs []error
	for _, step := range slices.Backward(steps) {
		if !step.Def.keeps || e.originals == nil {
			continue
		}
		b, err := step.parse()
		if err != nil || b.dir == "" {
			continue
		}
		owner := step.Req.Owner()
		s, err := e.originals.Load(b.dir, owner)
		if err != nil {
			e.log.Warn("nothing is put back", "plugin", step.Def.Info.Type, "why", err)
		}
		if left.isOther(ctx, s) {
			e.log.Warn("nothing is put back", "plugin", step.Def.Info.Type, "why", "the namespace is another one than at ADD")
			s = netstate.State{}
		}
		for _, one := range left.back(s) {
			err := left.asIsUp(ctx, &one)
			if err == nil {
				err = left.Apply(ctx, one)
			}
			if err != nil && !errors.Is(err, netstate.ErrNotExist) {
				e.log.Warn("not put back", "plugin", step.Def.Info.Type, "why", err)
			}
		}
		if context.Cause(ctx) != nil {
			break // the DEL fails, and the next one puts back what this one could not
		}
		errs = append(errs, at(step, "forget originals", e.originals.Remove(b.dir, owner)))
	}
	return errors.Join(errs...)
}

// podID asks which namespace the pod's is.
func podID(ctx context.Context, session Session) (string, error) {
	seen, err := session.Observe(ctx, netstate.Query{PodID: true})
	return seen.PodID, err
}

// isOther reports whether the pod's namespace is known not to be the one that s was kept for: a path may name another one by now.
func (l leftover) isOther(ctx context.Context, s netstate.State) bool {
	if s.PodID == "" || !l.inPod {
		return false
	}
	id, err := podID(ctx, l.Session)
	return err == nil && id != "" && id != s.PodID
}

// asIsUp leaves the links of s up or down as they are.
func (l leftover) asIsUp(ctx context.Context, s *netstate.State) error {
	for i := range s.Links {
		o := &s.Links[i]
		seen, err := l.Observe(ctx, netstate.Query{Links: []netstate.Ref{o.Ref()}})
		if err != nil {
			return err
		}
		have, _ := seen.Link(o.Place, o.Name)
		o.Down = have.Down
	}
	return nil
}

// back are the originals one by one, without those of links that go anyway and of a pod that is gone.
func (l leftover) back(s netstate.State) []netstate.State {
	there := func(p netstate.Place) bool { return p == netstate.Host || l.inPod }
	var all []netstate.State
	for _, o := range s.Links {
		goes := slices.ContainsFunc(l.state.Links, func(have netstate.Link) bool { return have.Kind != "" && have.Ref() == o.Ref() })
		if !goes && there(o.Place) {
			all = append(all, netstate.State{Owner: s.Owner, Links: []netstate.Link{o}})
		}
	}
	for _, o := range slices.Backward(s.Sysctls) {
		if there(o.Place) {
			all = append(all, netstate.State{Owner: s.Owner, Sysctls: []netstate.Sysctl{o}})
		}
	}
	return all
}
