package planned

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

func TestNotReady(t *testing.T) {
	step := Step{Def: Definition{Info: plugin.Info{Type: "wire"}}, Req: &plugin.Request{Verb: cni.VerbStatus}}
	for _, tc := range []struct {
		err  error
		want cni.Code
	}{
		{errors.New("the disk is full"), cni.CodeNotAvailable},
		{netstate.ErrExhausted, cni.CodeNotAvailable},
		{cni.Errorf(cni.CodeInvalidConfig, "mtu: 0"), cni.CodeInvalidConfig},
		{cni.Errorf(cni.CodeLimitedConnectivity, "one of two servers is away"), cni.CodeLimitedConnectivity},
		{fmt.Errorf("wait: %w", context.Canceled), cni.CodeTryAgain},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), cni.CodeTryAgain},
	} {
		got := cni.AsError(notReady(step, "status", tc.err))
		if got.Code != tc.want || got.Plugin != "wire" || got.Verb != cni.VerbStatus {
			t.Errorf("%v: code %d of %s %s, want %d of wire STATUS", tc.err, got.Code, got.Plugin, got.Verb, tc.want)
		}
	}
	if err := notReady(step, "status", nil); err != nil {
		t.Errorf("without an error: %v", err)
	}
}
