// Command static-route is a CNI plugin that stands behind another one in a network's list and gives the
// pod routes over the interface that the other made.
package main

import (
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// config is what the plugin reads of its configuration.
type config struct {
	Routes []struct {
		Dst netip.Prefix `json:"dst"`
		GW  netip.Addr   `json:"gw"`
	} `json:"routes"`
}

func parse(req *plugin.Request) (config, error) {
	var c config
	if err := planned.DecodeConfig(req.Conf, &c); err != nil {
		return config{}, err
	}
	if len(c.Routes) == 0 {
		return config{}, cni.Errorf(cni.CodeInvalidConfig, "routes: missing")
	}
	for i, r := range c.Routes {
		switch {
		case !r.Dst.IsValid() || r.Dst != r.Dst.Masked():
			return config{}, cni.Errorf(cni.CodeInvalidConfig, "routes[%d].dst: missing or with host bits", i)
		case !r.GW.IsValid() || r.GW.Is4() != r.Dst.Addr().Is4():
			return config{}, cni.Errorf(cni.CodeInvalidConfig, "routes[%d].gw: missing or of another family than dst", i)
		}
	}
	return c, nil
}

func plan(c config, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
	p := planned.Plan{Result: &cni.Result{}}
	for _, r := range c.Routes {
		p.State.Routes = append(p.State.Routes, netstate.Route{Place: netstate.Pod, Dst: r.Dst, Via: r.GW, Dev: in.IfName})
		p.Result.Routes = append(p.Result.Routes, cni.Route{Dst: r.Dst, GW: r.GW})
	}
	return p, nil
}

func definition() planned.Definition {
	return planned.Define(planned.Spec[config]{
		Info:    plugin.Info{Type: "static-route", About: "gives the pod routes"},
		Chained: true,
		Parse:   parse,
		Plan:    plan,
	})
}

func main() { planned.Main(definition()) }
