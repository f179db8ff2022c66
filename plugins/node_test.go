package plugins_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins"
)

// node is an engine over some kernel, with the networks of a test.
type node struct {
	engine *planned.Engine
}

func newNode(k planned.Kernel) *node {
	return &node{planned.NewEngine(planned.Config{Kernel: k, Originals: originals.Store{}, Delegate: numbered{}})}
}

// numbered finds itself: an IPAM plugin that gives the container pod7 the seventh address of each subnet that its
// configuration lists, and routes to what it lists.
type numbered struct{}

func (numbered) Find(string, []string) (plugin.Plugin, error) { return numbered{}, nil }

func (numbered) Add(_ context.Context, req *plugin.Request) (*cni.Result, error) {
	var ipam struct {
		Subnets []netip.Prefix `json:"subnets"`
		Routes  []netip.Prefix `json:"routes"`
	}
	if _, err := req.Conf.Raw.Decode("ipam", &ipam); err != nil {
		return nil, err
	}
	var n int
	if _, err := fmt.Sscanf(req.ContainerID, "pod%d", &n); err != nil {
		return nil, err
	}
	if req.IfName != "eth0" {
		n += 100 // a second interface of the container
	}
	res := &cni.Result{CNIVersion: req.Conf.CNIVersion}
	for _, subnet := range ipam.Subnets {
		a := subnet.Addr()
		for range n {
			a = a.Next()
		}
		res.IPs = append(res.IPs, cni.IP{Address: netip.PrefixFrom(a, subnet.Bits())})
	}
	for _, dst := range ipam.Routes {
		res.Routes = append(res.Routes, cni.Route{Dst: dst})
	}
	return res, nil
}

func (numbered) Del(context.Context, *plugin.Request) error    { return nil }
func (numbered) Check(context.Context, *plugin.Request) error  { return nil }
func (numbered) GC(context.Context, *plugin.Request) error     { return nil }
func (numbered) Status(context.Context, *plugin.Request) error { return nil }

// attachment is a pod's attachment to a network.
type attachment struct {
	network string // the list of plugins, as JSON
	pod     int
	// container and ifName are for a second interface of a container; by default they are the pod's number and eth0.
	container int
	ifName    string
	netns     string
	ports     []cni.PortMapping
	prev      *cni.Result // what ADD answered
}

// podNetwork is a network of two families with all that the plugins here do for a pod.
const podNetwork = `{"cniVersion":"1.1.0","name":"pods","plugins":[
  {"type":"loopback"},
  {"type":"bridge","bridge":"cni0","isDefaultGateway":true,"ipMasq":true,"hairpinMode":true,"macspoofchk":true,
   "ipam":{"type":"numbered","subnets":["10.88.0.0/16","fd00:88::/64"]}},
  {"type":"portmap","capabilities":{"portMappings":true}}]}`

// steps are the calls of a verb, in the order of the list.
func (a *attachment) steps(t *testing.T, verb cni.Verb) []planned.Step {
	t.Helper()
	network, err := cni.ParseNetwork([]byte(a.network))
	if err != nil {
		t.Fatal(err)
	}
	var steps []planned.Step
	for _, conf := range network.Plugins {
		def, ok := plugins.ByType(conf.Type)
		if !ok {
			t.Fatalf("no plugin of type %s", conf.Type)
		}
		steps = append(steps, planned.Step{Def: def, Req: a.request(t, verb, conf, network)})
	}
	return steps
}

func (a *attachment) request(t *testing.T, verb cni.Verb, conf *cni.PluginConf, network *cni.Network) *plugin.Request {
	t.Helper()
	runtime := map[string]json.RawMessage{}
	if conf.Capabilities["portMappings"] && len(a.ports) > 0 {
		ports, err := json.Marshal(a.ports)
		if err != nil {
			t.Fatal(err)
		}
		runtime["portMappings"] = ports
	}
	stdin := conf.Request(network.Name, network.CNIVersion, runtime)
	if a.prev != nil {
		prev, err := a.prev.Encode(network.CNIVersion)
		if err != nil {
			t.Fatal(err)
		}
		stdin.Set("prevResult", prev)
	}
	env := plugin.Env{Command: string(verb), ContainerID: fmt.Sprintf("pod%d", cmp.Or(a.container, a.pod)), NetNS: a.netns,
		IfName: cmp.Or(a.ifName, "eth0")}
	req, err := plugin.NewRequest(plugin.Info{Type: conf.Type}, env, stdin.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func (n *node) tryAdd(t *testing.T, a *attachment) error {
	t.Helper()
	results, err := n.engine.AddList(t.Context(), a.steps(t, cni.VerbAdd))
	if err == nil {
		a.prev = results[len(results)-1]
	}
	return err
}

func (n *node) add(t *testing.T, a *attachment) {
	t.Helper()
	if err := n.tryAdd(t, a); err != nil {
		t.Fatalf("ADD of pod%d: %v", a.pod, err)
	}
}

// addByPlugin runs the ADD of each plugin by itself, as a runtime does that starts programs.
func (n *node) addByPlugin(t *testing.T, a *attachment) {
	t.Helper()
	for i := range a.steps(t, cni.VerbAdd) {
		s := a.steps(t, cni.VerbAdd)[i] // with the result of the one before
		var err error
		if a.prev, err = n.engine.Plugin(s.Def).Add(t.Context(), s.Req); err != nil {
			t.Fatalf("ADD of pod%d by %s: %v", a.pod, s.Def.Info.Type, err)
		}
	}
}

// check runs CHECK of the list, and of every plugin by itself, and returns what they found.
func (n *node) check(t *testing.T, a *attachment) string {
	t.Helper()
	var found []string
	steps := a.steps(t, cni.VerbCheck)
	if err := n.engine.CheckList(t.Context(), steps); err != nil {
		found = append(found, err.Error())
	}
	for _, s := range steps {
		if err := n.engine.Plugin(s.Def).Check(t.Context(), s.Req); err != nil {
			found = append(found, err.Error())
		}
	}
	return strings.Join(found, "\n")
}

func (n *node) del(t *testing.T, a *attachment) {
	t.Helper()
	if err := n.engine.DelList(t.Context(), a.steps(t, cni.VerbDel)); err != nil {
		t.Fatalf("DEL of pod%d: %v", a.pod, err)
	}
}

// address returns the pod's address of a family.
func (a *attachment) address(v6 bool) netip.Addr {
	i := slices.IndexFunc(a.prev.IPs, func(ip cni.IP) bool {
		return ip.Address.Addr().Is6() == v6 && a.prev.Interfaces[ip.Interface.Value].Name == "eth0"
	})
	return a.prev.IPs[i].Address.Addr()
}
