package libcni

import (
	"errors"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/netstate"
)

// liveness says whether the namespace of an attachment still is.
type liveness int

const (
	unknown liveness = iota // it can't be examined: not allowed, no path recorded, another system than Linux
	alive
	dead
)

// liveness compares what is at the recorded path with what was there at ADD: the path is used again soon, and the inode
// at once, but a cookie never.
func (c *CNI) liveness(r *record) liveness {
	if r.bootID != "" && c.bootID != "" && r.bootID != c.bootID {
		return dead
	}
	if r.netns == "" {
		return unknown
	}
	cookie, err := netns.CookieOf(r.netns)
	switch {
	case errors.Is(err, netstate.ErrNotExist), errors.Is(err, netstate.ErrNotNamespace):
		return dead
	case err != nil:
		return unknown
	case r.cookie != 0 && cookie != 0 && r.cookie != cookie:
		return dead
	default:
		return alive
	}
}

// livingNetNS is the path to give to DEL: "" if what is there isn't the namespace that was attached.
func (c *CNI) livingNetNS(r *record) string {
	if c.liveness(r) == dead {
		return ""
	}
	return r.netns
}

// usable is the record, or else the intent, that can be read; nil without one.
func usable(rec, intent *entry) *entry {
	for _, e := range []*entry{rec, intent} {
		if e != nil && e.rec != nil {
			return e
		}
	}
	return nil
}
