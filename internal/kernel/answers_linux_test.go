package kernel

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

func TestAnswers(t *testing.T) {
	k := testKernel(t)
	pod := sandbox.Namespace(t)
	st := bridgeState(1)
	add(t, openPod(t, k, pod), st)
	ip := func(args string) {
		t.Helper()
		if err := k.host.ns.Do(func() error {
			out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
			if err != nil {
				t.Logf("ip %s: %s", args, out)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	ip("link set lo up")
	ip("link add lonely type veth peer name other")
	ip("addr add 10.99.0.1/24 dev lonely")
	ip("link set lonely up")
	ip("route add 10.98.0.0/24 via 10.88.0.1")
	ip("route add blackhole 10.97.0.0/24")
	pod1 := netip.MustParseAddr("10.88.0.1")
	for _, tc := range []struct {
		name  string
		ready func()
		addr  netip.Addr
		want  bool
		slow  bool // a silence that has to be waited for
	}{
		{name: "unknown", addr: pod1, want: true},
		{name: "known", addr: pod1, want: true},
		{name: "stale", addr: pod1, want: true, ready: func() { ip("neigh change 10.88.0.1 dev cni0 nud stale") }},
		{name: "permanent", addr: netip.MustParseAddr("10.88.0.9"), want: true, ready: func() { ip("neigh add 10.88.0.9 lladdr 0a:00:00:00:00:09 dev cni0 nud permanent") }},
		{name: "mapped", addr: netip.MustParseAddr("::ffff:10.88.0.1"), want: true},
		{name: "host", addr: testGateway.Addr(), want: true},
		{name: "nobody", addr: netip.MustParseAddr("10.88.7.7"), slow: true},
		{name: "moved-away", addr: netip.MustParseAddr("10.88.0.8"), slow: true, ready: func() { ip("neigh add 10.88.0.8 lladdr 0a:00:00:00:00:08 dev cni0 nud stale") }},
		{name: "no-carrier", addr: netip.MustParseAddr("10.99.0.7")},
		{name: "gateway", addr: netip.MustParseAddr("10.98.0.7")},
		{name: "blackhole", addr: netip.MustParseAddr("10.97.0.7")},
		{name: "no-route", addr: netip.MustParseAddr("192.0.2.7")},
		{name: "no-route-v6", addr: netip.MustParseAddr("2001:db8::7")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.ready != nil {
				tc.ready()
			}
			start := time.Now()
			got, err := k.Answers(t.Context(), tc.addr)
			if err != nil || got != tc.want {
				t.Errorf("answers %v, error %v, want %v", got, err, tc.want)
			}
			if took := time.Since(start); !tc.slow && took > time.Second || took > 3*answerTime {
				t.Errorf("it took %v", took)
			}
		})
	}
	if _, err := k.Answers(t.Context(), netip.Addr{}); err == nil {
		t.Error("no error for an address that is none")
	}
}
