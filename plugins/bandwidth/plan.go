package bandwidth

import (
	"cmp"
	"math"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// Where qdiscs hang, and their handles: numbers of linux/pkt_sched.h.
const (
	rootParent    = 0xffffffff
	rootHandle    = 0x10000 // 1:
	ingressParent = 0xfffffff1
	ingressHandle = 0xffff0000 // ffff:
)

const (
	ethernetMTU    = 1500
	ethernetHeader = 14 // counts as part of a frame
	waits          = 40 // a packet waits a 40th of a second at most, 25 ms
)

func plan(c Config, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
	p := planned.Plan{State: netstate.State{Owner: in.Owner()}}
	ifb := netstate.Link{Place: netstate.Host, Name: in.Owner().HostName("bwp"), Kind: "ifb", MAC: in.Owner().MAC("bandwidth"), MTU: ethernetMTU}
	gone := in.Verb == cni.VerbDel
	if c.egress != (limit{}) || gone {
		// A runtime that forgets on DEL what it asked for on ADD must not leave it behind.
		p.State.Links = []netstate.Link{ifb}
	}
	if c == (Config{}) {
		return p, nil
	}
	host, err := hostEnd(in, seen)
	if err != nil && gone {
		return p, nil // with the end went what stood on it
	}
	if err != nil {
		return planned.Plan{}, err
	}
	for _, l := range []struct {
		key string
		limit
	}{{"ingressBurst", c.ingress}, {"egressBurst", c.egress}} {
		if frame := host.mtu + ethernetHeader; l.limit != (limit{}) && int(l.burst) < frame && !gone {
			return planned.Plan{}, invalid("%s is %d bytes, and a frame of %s has up to %d: it would never pass", l.key, l.burst, in.IfName, frame).
				WithHint("%s is in bits: give at least %d", l.key, 8*frame)
		}
	}
	if c.ingress != (limit{}) {
		p.State.Qdiscs = append(p.State.Qdiscs, bucket(host.name, c.ingress))
	}
	if c.egress != (limit{}) {
		ifb.MTU = host.mtu
		p.State.Links = []netstate.Link{ifb}
		p.State.Qdiscs = append(p.State.Qdiscs, bucket(ifb.Name, c.egress), netstate.Qdisc{
			Place: netstate.Host, Dev: host.name, Kind: "ingress", Parent: ingressParent, Handle: ingressHandle,
		})
		p.State.Filters = []netstate.Filter{{Place: netstate.Host, Dev: host.name, To: ifb.Name}}
		p.Result = &cni.Result{Interfaces: []cni.Interface{{Name: ifb.Name, MAC: ifb.MAC, MTU: ifb.MTU}}}
	}
	return p, nil
}

// bucket is the token bucket of a limit, through which all goes that leaves dev. What would wait longer than
// 25 ms for its turn is dropped.
func bucket(dev string, l limit) netstate.Qdisc {
	return netstate.Qdisc{
		Place: netstate.Host, Dev: dev, Kind: "tbf", Parent: rootParent, Handle: rootHandle,
		Rate: l.rate, Burst: l.burst, Limit: uint32(min(l.rate/waits+uint64(l.burst), math.MaxUint32)),
	}
}

// end is the host's end of the pod's veth.
type end struct {
	name string
	mtu  int
}

// hostEnd finds the host's end: by the pod's, or, while a plugin before has only planned them, by the name that such
// plugins give it.
func hostEnd(in planned.Input, seen netstate.Facts) (end, error) {
	pod, there := seen.Link(netstate.Pod, in.IfName)
	switch {
	case there && pod.Kind != "veth":
		return end{}, noEnd("%s is of kind %q and has no end on the host", in.IfName, pod.Kind)
	case there && pod.Peer == "":
		return end{}, noEnd("the other end of the veth %s is not on the host", in.IfName)
	case there:
		host, _ := seen.Link(netstate.Host, pod.Peer)
		return end{pod.Peer, cmp.Or(host.MTU, ethernetMTU)}, nil
	case in.Prev == nil:
		return end{}, noEnd("prevResult is missing: the host's end of %s is not known", in.IfName)
	case len(in.Prev.Interfaces) == 0:
		return end{}, noEnd("prevResult.interfaces is missing or empty: the host's end of %s is not known", in.IfName)
	}
	name := in.Owner().HostName("veth")
	for _, dev := range in.Prev.Interfaces {
		if dev.Name == name && dev.Sandbox == "" {
			return end{name, cmp.Or(dev.MTU, ethernetMTU)}, nil
		}
	}
	return end{}, noEnd("prevResult.interfaces names no end of %s on the host, and there is no such interface in the pod", in.IfName)
}

func noEnd(format string, args ...any) *cni.Error {
	return invalid(format, args...).WithHint("bandwidth limits veths: put it after bridge or ptp")
}
