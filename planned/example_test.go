package planned_test

import (
	"fmt"

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
