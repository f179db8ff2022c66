package planned

import (
	"context"

	"github.com/cleat-cni/cleat/netstate"
)

// Standing says how an object of a plan stands to what is there.
type Standing struct {
	Mark Mark   `json:"mark"`
	Have string `json:"have,omitempty"` // what is there, if it is not what is planned
}

// Mark is the kind of a [Standing].
type Mark string

// The marks.
const (
	Missing   Mark = "missing"   // it will be made, or be removed: it is not there, or no more
	Exists    Mark = "exists"    // it is there as planned
	Changes   Mark = "changes"   // it is there otherwise, and will be as planned
	Conflicts Mark = "conflicts" // what is there in its place is somebody else's, or of an earlier ADD: ADD will fail
)

// stand looks how the objects of all plans stand to what is there.
func (r *listRun) stand(ctx context.Context, session Session) error {
	state := merged(r.plans)
	diffs, err := session.Diff(ctx, state.Settled())
	if err != nil {
		return at(r.steps[0], "diff", err)
	}
	differs := map[string]netstate.Difference{}
	for _, d := range diffs {
		differs[d.Object] = d
	}
	taken, err := occupied(ctx, session, state)
	if err != nil {
		return at(r.steps[0], "observe", err)
	}
	for i := range r.plans {
		now := map[string]Standing{}
		for _, o := range r.plans[i].State.Objects() {
			now[o.String()] = standing(o, differs, taken)
		}
		r.plans[i].Now = now
	}
	return nil
}

// occupied are the links that are there under the names of those that will be made.
func occupied(ctx context.Context, session Session, s netstate.State) (map[netstate.Ref]netstate.Link, error) {
	var q netstate.Query
	for _, l := range s.Links {
		if l.Kind != "" && !l.Shared {
			q.Links = append(q.Links, l.Ref())
		}
	}
	taken := map[netstate.Ref]netstate.Link{}
	if len(q.Links) == 0 {
		return taken, nil
	}
	seen, err := session.Observe(ctx, q)
	for _, l := range seen.Links {
		taken[l.Ref()] = l
	}
	return taken, err
}

func standing(o netstate.Object, differs map[string]netstate.Difference, taken map[netstate.Ref]netstate.Link) Standing {
	if _, isLease := o.(netstate.Lease); isLease {
		return Standing{Mark: Missing} // it is the next that is free
	}
	if l, ok := o.(netstate.Link); ok && l.Kind != "" && !l.Shared {
		if have, ok := taken[l.Ref()]; ok {
			return Standing{Conflicts, have.String()}
		}
		return Standing{Mark: Missing}
	}
	d, ok := differs[o.Key()]
	switch {
	case !ok:
		return Standing{Mark: Exists}
	case d.Have == "":
		return Standing{Mark: Missing}
	case exclusive(o):
		return Standing{Conflicts, d.Have}
	}
	return Standing{Changes, d.Have}
}

// exclusive reports whether an object can't be made where another one is in its place.
func exclusive(o netstate.Object) bool {
	switch o := o.(type) {
	case netstate.Addr:
		return !o.Shared && !o.Absent
	case netstate.Route:
		return !o.Shared
	case netstate.Element, netstate.Rule, netstate.Neighbour:
		return true
	}
	return false
}
