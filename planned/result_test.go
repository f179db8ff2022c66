package planned

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

func TestWithRecorded(t *testing.T) {
	s := netstate.State{Links: []netstate.Link{{Place: netstate.Host, Name: "veth0"}, {Place: netstate.Pod, Name: "eth0"}}}
	got := withRecorded(s, &plugin.Request{Prev: &cni.Result{Interfaces: []cni.Interface{
		{Name: "cni0"}, {Name: "vethx"}, {Name: "eth0", Sandbox: "/run/netns/c1"},
	}}})
	if got.Links[0].Recorded != nil {
		t.Errorf("the host's link is known by %v", got.Links[0].Recorded)
	}
	if diff := cmp.Diff([]string{"cni0", "vethx"}, got.Links[1].Recorded); diff != "" {
		t.Errorf("the pod's link is known by (-want +got)\n%s", diff)
	}
	if s.Links[1].Recorded != nil {
		t.Error("the state that came in was changed")
	}
}
