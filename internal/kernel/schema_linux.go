package kernel

import (
	"context"
	"errors"

	"github.com/cleat-cni/cleat/netstate"
)

// known returns a netstate.ErrNewer for a link that a later release has marked.
func (k *Kernel) known(d *device) error {
	schema, _ := netstate.SchemaOf(d.alias)
	if err := netstate.CheckSchema(schema, k.schema); err != nil {
		return about(d.key(), err)
	}
	return nil
}

// refuseNewer returns a netstate.ErrNewer, before anything is removed, if the owner's link on the host was made by a later release: what
// else belongs to the attachment then isn't known here. A chained plugin's state doesn't name the link, which is found by its name.
func (r *removal) refuseNewer(ctx context.Context) error {
	if r.state.Owner.IsZero() {
		return nil
	}
	d, err := r.lookup(ctx, netstate.Ref{Place: netstate.Host, Name: r.state.Owner.HostName("veth")})
	if errors.Is(err, netstate.ErrNotExist) {
		return nil
	}
	if err != nil || !ours(d, r.state.Owner) {
		return err
	}
	return r.s.k.known(d)
}
