package hostnet_test

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/hostnet"
)

const (
	head   = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	route4 = head +
		"eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
		"cni0\t0000580A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n" +
		"*\t0000010A\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
	route6 = "fd000088000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     cni0\n" +
		"fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n" +
		"00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo\n" +
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestRead(t *testing.T) {
	root := fstest.MapFS{
		"proc/net/route":                  file(route4),
		"proc/net/ipv6_route":             file(route6),
		"sys/class/net/cni0/brif/veth1/x": file(""),
		"sys/class/net/cni0/brif/veth2/x": file(""),
	}
	got, err := hostnet.Read(root, []net.Interface{{Name: "cni0", MTU: 1500}, {Name: "eth0", MTU: 1460, Flags: net.FlagUp}})
	if err != nil {
		t.Fatal(err)
	}
	want := hostnet.State{
		Links: []hostnet.Link{{Name: "cni0", MTU: 1500, Down: true, Ports: 2}, {Name: "eth0", MTU: 1460}},
		Routes: []hostnet.Route{
			{Dst: netip.MustParsePrefix("0.0.0.0/0"), Dev: "eth0"},
			{Dst: netip.MustParsePrefix("10.88.0.0/16"), Dev: "cni0"},
			{Dst: netip.MustParsePrefix("fd00:88::/64"), Dev: "cni0"},
		},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if up, ok := got.Uplink(); !ok || up.Name != "eth0" {
		t.Errorf("uplink %v, %v", up, ok)
	}
	if _, ok := got.Link("eth9"); ok {
		t.Error("eth9 is found")
	}
}

func TestReadNothing(t *testing.T) {
	s, err := hostnet.Read(fstest.MapFS{}, nil)
	if err != nil || len(s.Links)+len(s.Routes) > 0 {
		t.Errorf("state %v, error %v", s, err)
	}
	if _, ok := s.Uplink(); ok {
		t.Error("there is an uplink")
	}
}

func TestReadRefuses(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"hex":        {"proc/net/route": head + "eth0\tXX\t0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"},
		"short":      {"proc/net/route": head + "eth0\t00\t0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"},
		"flags":      {"proc/net/route": head + "eth0\t00000000\t0\tZ\t0\t0\t0\t00000000\t0\t0\t0\n"},
		"six-length": {"proc/net/ipv6_route": "fd000088000000000000000000000000 ff a 00 b c d e 00000001 cni0\n"},
		"six-hex":    {"proc/net/ipv6_route": "xx 40 a 00 b c d e 00000001 cni0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range files {
				root[path] = file(text)
			}
			if s, err := hostnet.Read(root, nil); err == nil {
				t.Errorf("no error, state %+v", s)
			}
		})
	}
}

// TestReadHere reads the machine that the test runs on.
func TestReadHere(t *testing.T) {
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	s, err := hostnet.Read(os.DirFS("/"), links)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Links) != len(links) {
		t.Errorf("%d links of %d", len(s.Links), len(links))
	}
}

func FuzzRead(f *testing.F) {
	f.Add(route4, route6)
	f.Add("", "\n")
	f.Fuzz(func(t *testing.T, four, six string) {
		s, err := hostnet.Read(fstest.MapFS{"proc/net/route": file(four), "proc/net/ipv6_route": file(six)}, nil)
		if err != nil {
			return
		}
		for _, r := range s.Routes {
			if !r.Dst.IsValid() || r.Dst != r.Dst.Masked() || r.Dev == "" {
				t.Errorf("route %+v", r)
			}
		}
	})
}
