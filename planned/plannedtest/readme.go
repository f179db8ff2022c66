package plannedtest

import (
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/schema"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// README proves that the JSON blocks of README.md's Example section are networks in which the plugin stands, and
// that it can plan for them: with addresses, where it uses IPAM, and behind a plugin that gave
// eth0 addresses, where it isn't the first. Each capability that is declared is asked for with the value in asked. Of each key and capability in
// the plugin's profile the text before the examples has to speak.
func README(t *testing.T, def planned.Definition, asked map[string]string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, examples, ok := strings.Cut(string(text), "\n## Example\n")
	if !ok {
		t.Fatal("README.md has no section Example")
	}
	readmeKeys(t, def, before)
	blocks := strings.Split(examples, "```json\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the section Example has no JSON block")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "\n```")
		network, err := cni.ParseNetwork([]byte(block))
		if err != nil {
			t.Errorf("%v\n%s", err, block)
			continue
		}
		i := slices.IndexFunc(network.Plugins, func(c *cni.PluginConf) bool { return c.Type == def.Info.Type })
		if i < 0 {
			t.Errorf("no plugin of type %s in\n%s", def.Info.Type, block)
			continue
		}
		planExample(t, def, example{network, i, asked})
	}
}

// readmeKeys wants each key of the plugin's profile to be named.
func readmeKeys(t *testing.T, def planned.Definition, text string) {
	t.Helper()
	keys, err := schema.Of(def.Profile.Conf)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(keys.Names(), def.Profile.Capabilities) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("README.md says nothing of `%s` before its examples", name)
		}
	}
}

// example is a network of a README and the place of the plugin in it.
type example struct {
	network *cni.Network
	at      int
	asked   map[string]string
}

func planExample(t *testing.T, def planned.Definition, e example) {
	t.Helper()
	conf := e.network.Plugins[e.at]
	runtime := map[string]json.RawMessage{}
	for name, on := range conf.Capabilities {
		if value, ok := e.asked[name]; ok && on {
			runtime[name] = json.RawMessage(value)
		} else {
			t.Errorf("the test asks for no value of the capability %s", name)
		}
	}
	request := conf.Request(e.network.Name, e.network.CNIVersion, runtime)
	if e.at > 0 {
		prev, err := examplePrev(netstate.Owner{Network: e.network.Name, ContainerID: "c1", IfName: "eth0"}).Encode(e.network.CNIVersion)
		if err != nil {
			t.Fatal(err)
		}
		request.Set("prevResult", prev)
	}
	env := plugin.Env{Command: "ADD", ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0"}
	req, err := plugin.NewRequest(def.Info, env, request.Bytes())
	if err != nil {
		t.Error(err)
		return
	}
	in := planned.Input{Request: req}
	if conf.IPAMType != "" {
		in.IPAM = exampleIPAM()
	}
	p, err := def.Plan(in, func(netstate.Query) netstate.Facts { return netstate.Facts{} })
	if err != nil {
		t.Error(err)
	} else if p.State.IsEmpty() {
		t.Errorf("the example plans nothing:\n%s", request.Bytes())
	}
}

// exampleIPAM is what an IPAM plugin gives: an address of each family.
func exampleIPAM() *cni.Result {
	return &cni.Result{IPs: []cni.IP{
		{Address: netip.MustParsePrefix("10.88.0.5/16"), Gateway: netip.MustParseAddr("10.88.0.1")},
		{Address: netip.MustParsePrefix("fd00:88::5/64"), Gateway: netip.MustParseAddr("fd00:88::1")},
	}}
}

// examplePrev is the result of a plugin that connected the owner's interface to a bridge.
func examplePrev(o netstate.Owner) *cni.Result {
	res := exampleIPAM()
	res.Interfaces = []cni.Interface{{Name: "cni0"}, {Name: o.HostName("veth")}, {Name: o.IfName, Sandbox: "/run/netns/c1"}}
	for i := range res.IPs {
		res.IPs[i].Interface = cni.Some(2)
	}
	return res
}
