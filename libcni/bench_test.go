package libcni_test

import (
	"testing"

	"github.com/cleat-cni/cleat/libcni"
)

// BenchmarkAddDel is what the runtime itself costs: locks, intent and record, requests of three plugins that do nothing.
func BenchmarkAddDel(b *testing.B) {
	k := newKit(b)
	list, err := libcni.ConfListFromBytes([]byte(`{"cniVersion":"1.1.0","name":"net1","plugins":[{"type":"a"},{"type":"b"},{"type":"c"}]}`))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := k.AddNetworkList(b.Context(), list, attachment()); err != nil {
			b.Fatal(err)
		}
		if err := k.DelNetworkList(b.Context(), list, attachment()); err != nil {
			b.Fatal(err)
		}
		k.calls()
	}
}
