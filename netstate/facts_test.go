package netstate_test

import (
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

func TestWantsUplink(t *testing.T) {
	links := []netstate.Ref{{Place: netstate.Host, Name: "a"}, {Place: netstate.Host, Name: "b"}}
	one := netstate.Facts{Links: []netstate.Link{{Place: netstate.Host, Name: "a"}}}
	both := netstate.Facts{Links: []netstate.Link{{Place: netstate.Host, Name: "a"}, {Place: netstate.Host, Name: "b"}}}
	down := netstate.Facts{Links: []netstate.Link{{Place: netstate.Host, Name: "a", Down: true}, {Place: netstate.Host, Name: "b"}}}
	for _, tc := range []struct {
		name string
		q    netstate.Query
		seen netstate.Facts
		want bool
	}{
		{"not-asked", netstate.Query{Links: links}, one, false},
		{"always", netstate.Query{Links: links, Uplink: true}, both, true},
		{"one-missing", netstate.Query{Links: links, UplinkIfMissing: true}, one, true},
		{"none-missing", netstate.Query{Links: links, UplinkIfMissing: true}, both, false},
		{"one-down", netstate.Query{Links: links, UplinkIfMissing: true}, down, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.q.WantsUplink(tc.seen); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
