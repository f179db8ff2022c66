// Package loopback is the loopback plugin: it sets the lo interface of a pod up.
//
// Lo is every namespace's own and is not made here, so there is nothing to configure and CNI_IFNAME says
// nothing. It stays up when the attachment is removed: another one may use it.
package loopback

import (
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

const lo = "lo"

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.Define(planned.Spec[Config]{
		Info:  plugin.Info{Type: "loopback", About: "sets the loopback interface of a pod up"},
		Parse: parse,
		Ask:   ask,
		Plan:  plan,

		Profile: planned.Profile{Conf: Config{}, Makes: lo},
	})
}

// Config is empty: there is nothing to configure.
type Config struct{}

func parse(*plugin.Request) (Config, error) { return Config{}, nil }

func ask(Config, planned.Input) netstate.Query {
	return netstate.Query{Links: []netstate.Ref{{Place: netstate.Pod, Name: lo}}}
}

func plan(_ Config, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
	p := planned.Plan{State: netstate.State{
		Owner: in.Owner(),
		Links: []netstate.Link{{Place: netstate.Pod, Name: lo}},
	}}
	if in.Prev != nil {
		return p, nil
	}
	addrs, err := addresses(seen)
	if err != nil {
		return planned.Plan{}, err
	}
	p.Result = &cni.Result{Interfaces: []cni.Interface{{Name: lo, MAC: "00:00:00:00:00:00", Sandbox: in.NetNS}}}
	for _, a := range addrs {
		p.Result.IPs = append(p.Result.IPs, cni.IP{Interface: cni.Some(0), Address: a})
	}
	return p, nil
}

// addresses are those that lo will have when it is up: the kernel gives it its own then. The first of
// each family is reported.
func addresses(seen netstate.Facts) ([]netip.Prefix, error) {
	addrs := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128")}
	have := seen.AddrsOf(netstate.Pod, lo)
	if len(have) == 0 {
		return addrs, nil
	}
	var v4, v6 []netip.Prefix
	for _, a := range have {
		switch {
		case !a.Prefix.Addr().IsLoopback():
			return nil, cni.Errorf(cni.CodeInvalidNetNS, "the pod's lo has %s, which is no loopback address", a.Prefix).
				WithHint("remove the address from lo, or put it on an interface of its own")
		case a.Prefix.Addr().Is4():
			v4 = append(v4, a.Prefix)
		default:
			v6 = append(v6, a.Prefix)
		}
	}
	return append(v4[:min(1, len(v4))], v6[:min(1, len(v6))]...), nil
}
