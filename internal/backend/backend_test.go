package backend_test

import (
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/backend"
	"github.com/cleat-cni/cleat/netstate"
)

func TestUsesIptables(t *testing.T) {
	for _, tc := range []struct {
		name, value   string
		missing, want bool
		asks          bool
	}{
		{name: "auto", value: "", asks: true},
		{name: "auto-no-nft", value: "", missing: true, want: true, asks: true},
		{name: "nftables", value: "nftables"},
		{name: "nftables-no-nft", value: "nftables", missing: true},
		{name: "iptables", value: "iptables", want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := backend.Parse("backend", tc.value)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.UsesIptables(netstate.Facts{NoNFTables: tc.missing}); got != tc.want {
				t.Errorf("uses iptables: %v, want %v", got, tc.want)
			}
			if b.Asks() != tc.asks {
				t.Errorf("asks: %v, want %v", b.Asks(), tc.asks)
			}
		})
	}
}

func TestParseUnknown(t *testing.T) {
	_, err := backend.Parse("ipMasqBackend", "ipchains")
	if e := cni.AsError(err); e.Code != cni.CodeInvalidConfig || !strings.Contains(e.Msg, `ipMasqBackend "ipchains"`) {
		t.Errorf("error %v", err)
	}
}
