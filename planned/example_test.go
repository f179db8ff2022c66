package planned_test

import (
	"fmt"
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// A plugin that brings the container's loopback interface up. All verbs come from Plan; as a program of its own
// it is planned.Main(planned.Define(spec)).
func ExampleDefine() {
	spec := planned.Spec[struct{}]{
		Info:  plugin.Info{Type: "lo-up"},
		Parse: func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		Plan: func(_ struct{}, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
			return planned.Plan{State: netstate.State{
				Links: []netstate.Link{{Place: netstate.Pod, Name: "lo"}},
			}}, nil
		},
	}
	in := planned.Input{Request: &plugin.Request{Verb: cni.VerbAdd, Conf: &cni.PluginConf{Name: "n"}}}
	p, err := planned.Define(spec).Plan(in, func(netstate.Query) netstate.Facts { return netstate.Facts{} })
	fmt.Println(p.State.String()+"error:", err)
	// Output:
	// pod  link lo
	// error: <nil>
}

// A plugin that gives addresses says where they come from; keeping who has which is the engine's.
func ExampleDefineIPAM() {
	type config struct{ Subnet netip.Prefix }
	store := func(req *plugin.Request) netstate.Pool {
		return netstate.Pool{Network: req.Conf.Name, Dir: "/var/lib/cni/networks"}
	}
	ipam := planned.DefineIPAM(planned.IPAMSpec[config]{
		Info: plugin.Info{Type: "first-half"},
		Parse: func(req *plugin.Request) (config, error) {
			var c struct{ IPAM config }
			err := planned.DecodeConfig(req.Conf, &c)
			return c.IPAM, err
		},
		Allocation: func(c config, req *plugin.Request) (planned.Allocation, error) {
			p, gateway := store(req), c.Subnet.Masked().Addr().Next()
			p.Sets = [][]netstate.Range{{{Subnet: c.Subnet, Start: gateway.Next(), End: netip.MustParseAddr("10.1.0.127"), Gateway: gateway}}}
			return planned.Allocation{Pool: p}, nil
		},
		Store: store,
	})
	conf, err := cni.ParsePluginConf([]byte(`{"cniVersion":"1.0.0","name":"n","type":"bridge","ipam":{"type":"first-half","subnet":"10.1.0.0/24"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := ipam.Allocation(&plugin.Request{Verb: cni.VerbAdd, Conf: conf})
	fmt.Println(a.Pool.Sets[0][0], err)
	// Output:
	// {10.1.0.0/24 10.1.0.2 10.1.0.127 10.1.0.1} <nil>
}
