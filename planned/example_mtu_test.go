package planned_test

import (
	"fmt"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

type mtuConfig struct {
	MTU int `json:"mtu"`
}

func parseMTU(req *plugin.Request) (c mtuConfig, err error) {
	if err := planned.DecodeConfig(req.Conf, &c); err != nil {
		return c, err
	}
	if c.MTU < 1280 {
		return c, cni.Errorf(cni.CodeInvalidConfig, "mtu: missing or below 1280")
	}
	return c, nil
}

func planMTU(c mtuConfig, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
	return planned.Plan{State: netstate.State{
		Links: []netstate.Link{{Place: netstate.Pod, Name: in.IfName, MTU: c.MTU}},
	}}, nil
}

// A program of it is func main() { planned.Main(podMTU) }
var podMTU = planned.Define(planned.Spec[mtuConfig]{
	Info:    plugin.Info{Type: "pod-mtu", About: "sets the MTU of the interface that the plugin before it made"},
	Chained: true, Parse: parseMTU, Plan: planMTU,
})

// A plugin that stands behind another one in a network's list.
func ExampleSpec() {
	conf, err := cni.ParsePluginConf([]byte(`{"cniVersion":"1.1.0","name":"pods","type":"pod-mtu","mtu":1400}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	in := planned.Input{Request: &plugin.Request{Verb: cni.VerbAdd, Conf: conf, IfName: "eth0"}}
	p, err := podMTU.Plan(in, func(netstate.Query) netstate.Facts { return netstate.Facts{} })
	fmt.Print(p.State.String())
	fmt.Println(err)
	// Output:
	// pod  link eth0 mtu 1400
	// <nil>
}
