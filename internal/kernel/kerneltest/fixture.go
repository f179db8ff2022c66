package kerneltest

import (
	"net/netip"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

// Fixture returns the kernel as [Contract] and [Agree] take it.
func (m *Memory) Fixture(t *testing.T) Fixture {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	return Fixture{
		Kernel:    m,
		HostPath:  HostPath,
		NewPod:    m.NewPod,
		RemovePod: func(path string) { t.Helper(); must(m.RemovePod(path)) },
		NewFile:   m.NewFile,
		AddBridge: func(path, name string) {
			t.Helper()
			must(m.AddLink(path, netstate.Link{Name: name, Kind: "bridge"}))
		},
		AddAddr: func(path, dev string, p netip.Prefix) {
			t.Helper()
			must(m.AddAddr(path, netstate.Addr{Dev: dev, Prefix: p}))
		},
		DelLink: func(path, name string) { t.Helper(); must(m.DelLink(path, name)) },
		DelRoute: func(path string, dst netip.Prefix) {
			t.Helper()
			must(m.DelRoute(path, netstate.Route{Dst: dst, Dev: "eth0"}))
		},
		Text: func(path string) string {
			t.Helper()
			text, err := m.DumpOf(path)
			must(err)
			return text
		},
	}
}
