package libcni

import (
	"fmt"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// refuseNewer returns a netstate.ErrNewer if an entry was written by a later release of this library: what belongs to the attachment may be
// more than is known here, so that deleting it would leave the rest without a record. Entries may be nil.
func (c *CNI) refuseNewer(entries ...*entry) error {
	for _, e := range entries {
		if e == nil || e.rec == nil {
			continue
		}
		if err := netstate.CheckSchema(e.rec.schema, c.schema); err != nil {
			return cni.Errorf(cni.CodeTryAgain, "%w", fmt.Errorf("record %s: %w", e.path, err)).
				WithHint("use that release, or a later one, for this attachment; new ones can be added by this one")
		}
	}
	return nil
}
