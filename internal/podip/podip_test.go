package podip_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/podip"
	"github.com/cleat-cni/cleat/netstate"
)

func ip(prefix, gateway string) cni.IP {
	out := cni.IP{Address: netip.MustParsePrefix(prefix)}
	if gateway != "" {
		out.Gateway = netip.MustParseAddr(gateway)
	}
	return out
}

func TestDefaultGateway(t *testing.T) {
	for _, tc := range []struct {
		prefix, want string
		ok           bool
	}{
		{"10.1.0.5/16", "10.1.0.1", true},
		{"fd00::5/64", "fd00::1", true},
		{"10.1.0.4/31", "10.1.0.5", true},
		{"10.1.0.1/16", "10.1.0.1", false},
		{"10.1.0.5/32", "10.1.0.6", false},
		{"255.255.255.255/32", "invalid IP", false},
	} {
		t.Run(tc.prefix, func(t *testing.T) {
			gw, ok := podip.DefaultGateway(netip.MustParsePrefix(tc.prefix))
			if gw.String() != tc.want || ok != tc.ok {
				t.Errorf("got %s, %v, want %s, %v", gw, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestMAC(t *testing.T) {
	owner := netstate.Owner{Network: "n", ContainerID: "c", IfName: "eth0"}
	both := &cni.Result{IPs: []cni.IP{ip("fd00::5/64", ""), ip("10.1.0.5/16", "")}}
	for _, tc := range []struct {
		name, wanted string
		given        *cni.Result
		want         string
	}{
		{"wanted", "02:00:00:00:00:01", both, "02:00:00:00:00:01"},
		{"of-ipv4", "", both, "0a:58:0a:01:00:05"},
		{"ipv6-alone", "", &cni.Result{IPs: both.IPs[:1]}, owner.MAC("pod")},
		{"nothing-known", "", nil, owner.MAC("pod")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := podip.MAC(tc.wanted, tc.given, owner); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestCheckMTU(t *testing.T) {
	for mtu, ok := range map[int]bool{-1: false, 0: true, 67: false, 68: true, 65535: true, 65536: false} {
		if err := podip.CheckMTU(mtu, "is the default"); (err == nil) != ok || err != nil && cni.CodeOf(err) != cni.CodeInvalidConfig {
			t.Errorf("%d: %v", mtu, err)
		}
	}
}

func TestConfigure(t *testing.T) {
	res := &cni.Result{IPs: []cni.IP{ip("10.1.0.5/24", "10.1.0.1"), ip("fd00::5/64", "fe80::1")}}
	podip.AddDefaultRoutes(res)
	var s netstate.State
	if err := podip.Configure(&s, res, podip.Interface{Name: "eth0", Index: 2, MTU: 1280, DAD: true}); err != nil {
		t.Fatal(err)
	}
	want := `pod  sysctl net/ipv6/conf/lo/disable_ipv6 value 0 shared
pod  sysctl net/ipv6/conf/eth0/disable_ipv6 value 0
pod  sysctl net/ipv6/conf/eth0/keep_addr_on_down value 1
pod  sysctl net/ipv6/conf/eth0/ndisc_notify value 1
pod  sysctl net/ipv6/conf/eth0/accept_ra value 0
pod  sysctl net/ipv6/conf/eth0/autoconf value 0
pod  sysctl net/ipv6/conf/eth0/accept_dad value 1
pod  sysctl net/ipv6/conf/eth0/enhanced_dad value 1
pod  addr 10.1.0.5/24 dev eth0
pod  addr fd00::5/64 dev eth0 dad
pod  route 0.0.0.0/0 via 10.1.0.1 dev eth0
pod  route ::/0 via fe80::1 dev eth0
`
	if diff := cmp.Diff(want, s.String()); diff != "" {
		t.Errorf("state (-want +got)\n%s", diff)
	}
	for _, ip := range res.IPs {
		if ip.Interface != cni.Some(2) {
			t.Errorf("%s is interface %v's", ip.Address, ip.Interface)
		}
	}
	for name, bad := range map[string]*cni.Result{
		"family": {IPs: []cni.IP{ip("10.1.0.5/24", "fd00::1")}},
		"own":    {IPs: []cni.IP{ip("10.1.0.5/24", "10.1.0.5")}},
		"mtu":    {IPs: []cni.IP{ip("fd00::5/64", "")}},
	} {
		if err := podip.Configure(&s, bad, podip.Interface{Name: "eth0", MTU: 1000}); cni.CodeOf(err) != cni.CodeInvalidConfig {
			t.Errorf("%s: %v", name, err)
		}
	}
}
