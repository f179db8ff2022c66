package ipamconf_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/ipamconf"
	"github.com/cleat-cni/cleat/plugin"
)

func TestWishes(t *testing.T) {
	for _, tc := range []struct {
		name, more, args string
		want             []ipamconf.Wish
		fromArgs         bool
		code             cni.Code
	}{
		{name: "none"},
		{name: "environment", args: "IP=10.1.0.5;MAC=x;GATEWAY=y", want: []ipamconf.Wish{{"CNI_ARGS IP", "10.1.0.5", cni.CodeInvalidEnvironment}}, fromArgs: true},
		{name: "environment-several", args: "IP=10.1.0.5, fd00::5", want: []ipamconf.Wish{
			{"CNI_ARGS IP", "10.1.0.5", cni.CodeInvalidEnvironment}, {"CNI_ARGS IP", "fd00::5", cni.CodeInvalidEnvironment}}, fromArgs: true},
		{name: "args", more: `"args":{"cni":{"ips":["a","b"]}},`, args: "IP=c",
			want: []ipamconf.Wish{{"args.cni.ips[0]", "a", cni.CodeInvalidConfig}, {"args.cni.ips[1]", "b", cni.CodeInvalidConfig}}},
		{name: "args-empty", more: `"args":{"cni":{"ips":[]}},`, args: "IP=c"},
		{name: "capability", more: `"args":{"cni":{"ips":["a"]}},"runtimeConfig":{"ips":["d"]},`, args: "IP=c",
			want: []ipamconf.Wish{{"runtimeConfig.ips[0]", "d", cni.CodeInvalidConfig}}},
		{name: "capability-empty", more: `"runtimeConfig":{"ips":[]},`, args: "IP=c", want: []ipamconf.Wish{{"CNI_ARGS IP", "c", cni.CodeInvalidEnvironment}}, fromArgs: true},
		{name: "unknown", args: "COLOUR=red", code: cni.CodeInvalidEnvironment},
		{name: "type", more: `"args":{"cni":{"ips":7}},`, code: cni.CodeInvalidConfig},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := plugin.Env{Command: "ADD", ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0", Args: tc.args}
			req, err := plugin.NewRequest(plugin.Info{Type: "static"}, env, []byte(`{"cniVersion":"1.1.0","name":"n",`+tc.more+`"type":"bridge","ipam":{"type":"static"}}`))
			if err != nil {
				t.Fatal(err)
			}
			got, fromArgs, err := ipamconf.Wishes(req)
			if tc.code != 0 {
				if cni.CodeOf(err) != tc.code {
					t.Errorf("error %v, want code %d", err, tc.code)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" || fromArgs != tc.fromArgs {
				t.Errorf("from CNI_ARGS %v, error %v (-want +got)\n%s", fromArgs, err, diff)
			}
		})
	}
}
