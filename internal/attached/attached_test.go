package attached_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/attached"
)

func TestResult(t *testing.T) {
	ip := func(text string, of ...int) cni.IP {
		out := cni.IP{Address: netip.MustParsePrefix(text)}
		for _, i := range of {
			out.Interface = cni.Some(i)
		}
		return out
	}
	type read struct {
		Addresses   []string
		Host, Leads []string
		Lives       string
	}
	for _, tc := range []struct {
		name string
		prev *cni.Result
		want read
	}{
		{"nothing", nil, read{Lives: "netns /run/netns/a"}},
		{"bridge", &cni.Result{
			Interfaces: []cni.Interface{{Name: "cni0"}, {Name: "veth1"}, {Name: "cni0.5"}, {Name: "cni0.x"}, {Name: "eth0", Sandbox: "/run/netns/a"}},
			IPs:        []cni.IP{ip("10.88.0.5/16", 4), ip("10.88.0.1/16", 0), ip("fd00::5/64")},
		}, read{
			Addresses: []string{"10.88.0.5/16", "fd00::5/64"}, Host: []string{"cni0", "veth1", "cni0.5", "cni0.x"},
			Leads: []string{"cni0", "cni0.5"}, Lives: "link veth1",
		}},
		{"names-of-no-interface", &cni.Result{
			Interfaces: []cni.Interface{{Name: "x\n-A INPUT -j ACCEPT"}, {Name: "../../kernel"}, {Name: "a b"}, {Name: "veth-that-is-too-long"}, {Name: "cni0"}},
		}, read{Host: []string{"cni0"}, Leads: []string{"cni0"}, Lives: "netns /run/netns/a"}},
		{"shaped", &cni.Result{
			Interfaces: []cni.Interface{{Name: "cni0"}, {Name: "veth1"}, {Name: "eth0", Sandbox: "/run/netns/a"}, {Name: "bwp3ec09c00a1f"}},
		}, read{Host: []string{"cni0", "veth1"}, Leads: []string{"cni0"}, Lives: "link veth1"}},
		{"another-interface", &cni.Result{
			Interfaces: []cni.Interface{{Name: "eth1", Sandbox: "/run/netns/a"}}, IPs: []cni.IP{ip("10.88.0.5/16", 0), ip("10.88.0.6/16", 9)},
		}, read{Addresses: []string{"10.88.0.6/16"}, Lives: "netns /run/netns/a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := attached.HostInterfaces(tc.prev)
			got := read{Host: host, Leads: attached.TowardPod(host), Lives: attached.Lives(tc.prev, "/run/netns/a")}
			for _, p := range attached.Addresses(tc.prev, "eth0") {
				got.Addresses = append(got.Addresses, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
