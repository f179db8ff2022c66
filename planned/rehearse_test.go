package planned_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins/bandwidth"
	"github.com/cleat-cni/cleat/plugins/bridge"
	"github.com/cleat-cni/cleat/plugins/hostlocal"
	"github.com/cleat-cni/cleat/plugins/portmap"
)

func TestRehearse(t *testing.T) {
	nothing := func(netstate.Query) netstate.Facts { return netstate.Facts{} }
	other := func(q netstate.Query) netstate.Facts {
		f := netstate.Facts{}
		for _, ref := range q.Links {
			f.Links = append(f.Links, netstate.Link{Place: ref.Place, Name: ref.Name, Kind: "veth"})
		}
		return f
	}
	ipam := `"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24","gateway":"10.1.0.1"}],[{"subnet":"fd00::/64"}]]}`
	for _, tc := range []struct {
		name, conf string
		def, ipam  planned.Definition
		seen       func(netstate.Query) netstate.Facts
		step       string // of the error; "" for none
		addrs      []string
	}{
		{"built-in-ipam", `"type":"bridge",` + ipam, bridge.Plugin(), hostlocal.Plugin(), nothing, "", []string{"10.1.0.2/24", "fd00::2/64"}},
		{"foreign-ipam", `"type":"bridge",` + ipam, bridge.Plugin(), planned.Definition{}, nothing, "", []string{"192.0.2.2/24"}},
		{"no-ipam", `"type":"bridge"`, bridge.Plugin(), planned.Definition{}, nothing, "", nil},
		{"on-demand", `"type":"portmap"`, portmap.Plugin(), planned.Definition{}, nothing, "", nil},
		{"limits", `"type":"bandwidth","ingressRate":80000,"ingressBurst":80000`, bandwidth.Plugin(), planned.Definition{}, nothing, "", nil},
		{"refused", `"type":"bridge","vlan":4095`, bridge.Plugin(), planned.Definition{}, nothing, "validate", nil},
		{"ipam-refuses", `"type":"bridge","ipam":{"type":"host-local"}`, bridge.Plugin(), hostlocal.Plugin(), nothing, "ipam", nil},
		{"host-refuses", `"type":"bridge","vlan":5,"isGateway":true,"bridge":"br0",` + ipam, bridge.Plugin(), hostlocal.Plugin(), other, "plan", nil},
		{"in-the-list", `"type":"host-local",` + ipam, hostlocal.Plugin(), planned.Definition{}, nothing, "validate", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := plugin.Env{Command: "ADD", ContainerID: "c", NetNS: "/run/netns/c", IfName: "eth0"}
			req, err := plugin.NewRequest(tc.def.Info, env, []byte(`{"cniVersion":"1.0.0","name":"n",`+tc.conf+`}`))
			if err != nil {
				t.Fatal(err)
			}
			if tc.name == "host-refuses" {
				tc.seen = func(q netstate.Query) netstate.Facts {
					f := other(q)
					f.Links[1].Kind = "vlan"
					return f
				}
			}
			r, err := tc.def.Rehearse(req, tc.ipam, tc.seen)
			if tc.step != "" {
				if e := cni.AsError(err); err == nil || e.Step != tc.step {
					t.Fatalf("error %v, want one of the step %s", err, tc.step)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Plan.State.IsEmpty() {
				t.Error("nothing is planned")
			}
			if want := tc.name == "on-demand"; r.Idle != want {
				t.Errorf("Idle = %v, want %v", r.Idle, want)
			}
			var addrs []string
			for _, a := range r.Plan.State.Addrs {
				if a.Place == netstate.Pod {
					addrs = append(addrs, a.Prefix.String())
				}
			}
			if !slices.Equal(addrs, tc.addrs) {
				t.Errorf("addresses %q, want %q", addrs, tc.addrs)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	k := kerneltest.NewMemory(kerneltest.Config{})
	e := planned.NewEngine(planned.Config{Kernel: planned.Wrap(k)})
	s, err := k.Open(t.Context(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := netstate.State{
		Owner: netstate.Owner{Network: "n", ContainerID: "c", IfName: "eth0"},
		Links: []netstate.Link{{Place: netstate.Host, Name: "br0", Kind: "bridge", Shared: true}},
		Addrs: []netstate.Addr{{Place: netstate.Host, Dev: "br0", Prefix: netip.MustParsePrefix("10.1.0.1/24"), Shared: true}},
	}
	if err := s.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	seen, err := e.Observe(t.Context(), netstate.Query{Links: []netstate.Ref{{Place: netstate.Host, Name: "br0"}, {Place: netstate.Pod, Name: "eth0"}}})
	if err != nil || len(seen.Links) != 1 || len(seen.Addrs) != 1 {
		t.Errorf("seen %+v, error %v", seen, err)
	}
}
