package kernel

import (
	"errors"

	"github.com/cleat-cni/cleat/netstate"
)

// The kinds of links and qdiscs that are made here.
const (
	kindVeth   = "veth"
	kindBridge = "bridge"
	kindIFB    = "ifb"
	kindDummy  = "dummy"

	kindTBF     = "tbf"
	kindIngress = "ingress"
)

// check refuses what can be told to be wrong from the state alone.
func check(s netstate.State) error {
	return errors.Join(s.Check(), checkIptables(s))
}

// about is an error about one object.
func about(o netstate.Object, err error) error {
	return &netstate.ObjectError{Object: o.Key(), Err: err}
}

// peerRef is where the other end of a veth is.
func peerRef(l *netstate.Link) netstate.Ref { return l.PeerRef() }

func refOf(l *netstate.Link) netstate.Ref { return l.Ref() }

// findPeer returns the link of the state that is the other end of the veth l: the one that l names, or that
// names l.
func findPeer(links []netstate.Link, l *netstate.Link) *netstate.Link {
	for i := range links {
		o := &links[i]
		if o.Kind != kindVeth || refOf(o) == refOf(l) {
			continue
		}
		if l.Peer != "" && peerRef(l) == refOf(o) || o.Peer != "" && peerRef(o) == refOf(l) {
			return o
		}
	}
	return nil
}
