package plannedtest

import (
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// FuzzConfig fuzzes a plugin's configuration. The seeds are configs, in which VERSION is replaced by each version of the
// specification in turn. Whatever comes in, the plugin must not panic, must give an error a code of its
// own, and must plan the same when asked again.
func FuzzConfig(f *testing.F, def planned.Definition, configs ...string) {
	f.Helper()
	for _, config := range configs {
		if !strings.Contains(config, "VERSION") {
			f.Fatalf("VERSION is missing in the seed %s", config)
		}
		for _, version := range cni.Versions() {
			f.Add([]byte(strings.ReplaceAll(config, "VERSION", version)))
		}
	}
	env := plugin.Env{Command: "ADD", ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0"}
	f.Fuzz(func(t *testing.T, stdin []byte) {
		req, err := plugin.NewRequest(def.Info, env, stdin)
		if err != nil {
			return
		}
		in := planned.Input{Request: req, IPAM: exampleIPAM()}
		nothing := func(netstate.Query) netstate.Facts { return netstate.Facts{} }
		p, err := def.Plan(in, nothing)
		if err != nil {
			if code := cni.CodeOf(err); code == 0 || code == cni.CodeInternal {
				t.Errorf("error without a code of its own: %v", err)
			}
			return
		}
		for _, o := range p.State.Objects() {
			if strings.ContainsAny(o.String(), "\n\x00") {
				t.Errorf("object of more than one line: %q", o)
			}
		}
		again, err := def.Plan(in, nothing)
		if err != nil || again.State.String() != p.State.String() {
			t.Errorf("planned differently when asked again, error %v:\n%s\n%s", err, p.State, again.State)
		}
	})
}
