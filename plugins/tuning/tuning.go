// Package tuning is the tuning plugin: it changes the pod's interface and the sysctls of the pod's namespace.
//
// It makes nothing: what it changes is there already, or is made with the wished values by a plugin before it in the same pass.
// How things were is kept by the engine until DEL, for an interface or a namespace that outlives the attachment.
package tuning

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/spoof"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.Define(planned.Spec[Config]{
		Info:      plugin.Info{Type: "tuning", About: "changes a pod's interface and sysctls"},
		Parse:     parse,
		Ask:       ask,
		Plan:      plan,
		Originals: func(c Config) string { return c.dataDir },
		Chained:   true,
		Profile:   planned.Profile{Conf: netConf{}, Args: wishes{}, Capabilities: []string{"mac"}},
	})
}

// allowlist says which sysctls may be set. Without the file all of the network's may.
const allowlist = "/etc/cni/tuning/allowlist.conf"

// ask wants to know how things are that are to change, and what may be changed.
func ask(c Config, in planned.Input) netstate.Query {
	var q netstate.Query
	if c.tunesLink() {
		q.Links = []netstate.Ref{{Place: netstate.Pod, Name: in.IfName}}
	}
	if c.mac != "" {
		spoof.Ask(&q, in.Owner(), hostEnd(in))
	}
	for _, s := range c.sysctls {
		q.Sysctls = append(q.Sysctls, netstate.Sysctl{Place: netstate.Pod, Name: s.name})
	}
	if len(c.sysctls) > 0 {
		q.Files = []string{allowlist}
	}
	return q
}

func plan(c Config, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
	p := planned.Plan{State: netstate.State{Owner: in.Owner()}}
	if in.Verb == cni.VerbDel {
		return p, nil // all that there is to do is to put back what was kept
	}
	if text, ok := seen.Files[allowlist]; ok {
		if err := checkAllowed(c.sysctls, text); err != nil {
			return planned.Plan{}, err
		}
	}
	if c.tunesLink() {
		want := netstate.Link{Place: netstate.Pod, Name: in.IfName, MAC: c.mac, MTU: c.mtu, Promisc: c.promisc, AllMulti: c.allMulti, TxQLen: c.txQLen}
		if have, ok := seen.Link(netstate.Pod, in.IfName); ok {
			want.Down = have.Down
			p.Originals.Links = []netstate.Link{original(want, have)}
		}
		p.State.Links = []netstate.Link{want}
		p.Interface = cni.Interface{MAC: c.mac, MTU: c.mtu}
	}
	if port := hostEnd(in); c.mac != "" && spoof.IsChecked(seen, p.State.Owner, port) {
		spoof.Allow(&p.State, port, c.mac)
	}
	for _, s := range c.sysctls {
		// As if set by hand: when the interface is up and has its addresses.
		p.State.Sysctls = append(p.State.Sysctls, netstate.Sysctl{Place: netstate.Pod, Name: s.name, Value: s.value, AfterUp: true})
		if was, ok := seen.Sysctl(netstate.Pod, s.name); ok {
			p.Originals.Sysctls = append(p.Originals.Sysctls, netstate.Sysctl{Place: netstate.Pod, Name: s.name, Value: was})
		}
	}
	return p, nil
}

// hostEnd is the name that the host's end of the pod's interface has if a plugin of this project made it.
func hostEnd(in planned.Input) string { return in.Owner().HostName("veth") }

// original is what of have the wish changes.
func original(want, have netstate.Link) netstate.Link {
	was := netstate.Link{Place: want.Place, Name: want.Name}
	if want.MAC != "" {
		was.MAC = have.MAC
	}
	if want.MTU != 0 {
		was.MTU = have.MTU
	}
	if want.Promisc {
		was.Promisc, was.NoPromisc = have.Promisc, !have.Promisc
	}
	if want.AllMulti != "" {
		was.AllMulti = have.AllMulti
	}
	if want.TxQLen != 0 {
		was.TxQLen = have.TxQLen
	}
	return was
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}
