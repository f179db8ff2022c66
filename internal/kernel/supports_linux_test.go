package kernel

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

func TestSupports(t *testing.T) {
	k := testKernel(t)
	links := func() (text string) {
		t.Helper()
		if err := k.host.ns.Do(func() error {
			out, err := exec.Command("ip", "-o", "link").Output()
			text = string(out)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := links()
	good := bridgeState(1)
	adjusted := bridgeState(2)
	adjusted.Links = append(adjusted.Links, netstate.Link{Place: netstate.Host, Name: "uplink0", MTU: 9000})
	adjusted.Addrs = append(adjusted.Addrs, netstate.Addr{Place: netstate.Host, Dev: "uplink0", Prefix: testGateway})
	adjusted.Sysctls = append(adjusted.Sysctls, netstate.Sysctl{Place: netstate.Host, Name: "net/ipv4/conf/uplink0/forwarding", Value: "1"})
	port := bridgeState(3)
	port.Links = port.Links[1:]
	strange := bridgeState(4)
	strange.Links[0].Kind = "no-such-kind"
	for _, tc := range []struct {
		name  string
		state netstate.State
		lacks string // the object that can't be made
	}{
		{"bridge", good, ""},
		{"again", good, ""},
		{"adjusted-link", adjusted, ""},
		{"foreign-master", port, ""},
		{"unknown-kind", strange, "host link cni0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := k.Supports(t.Context(), tc.state)
			if tc.lacks == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			about, ok := errors.AsType[*netstate.ObjectError](err)
			if !ok || about.Object != tc.lacks || !errors.Is(err, netstate.ErrUnsupported) {
				t.Errorf("error %v, want ErrUnsupported about %s", err, tc.lacks)
			}
		})
	}
	if diff := cmp.Diff(before, links()); diff != "" {
		t.Errorf("the host changed (-before +after)\n%s", diff)
	}
}

// TestSupportsVLANs: whatever this kernel has, the answer is that of ADD.
func TestSupportsVLANs(t *testing.T) {
	k := testKernel(t)
	s := netstate.State{Links: []netstate.Link{{Place: netstate.Host, Name: "cni0", Kind: kindBridge, Shared: true,
		Bridge: netstate.Bridge{VLANFiltering: true}}}}
	supports := k.Supports(t.Context(), s)
	applied := openPod(t, k, nil).Apply(t.Context(), s)
	if (supports == nil) != (applied == nil) {
		t.Errorf("supports: %v, apply: %v", supports, applied)
	}
	if supports != nil && !strings.Contains(supports.Error(), "cni0") {
		t.Errorf("error names no link: %v", supports)
	}
}
