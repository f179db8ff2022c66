package kerneltest_test

import (
	"net/netip"
	"testing"

	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/netstate"
)

func TestMemoryContract(t *testing.T) {
	kerneltest.Contract(t, func(t *testing.T) kerneltest.Fixture {
		m := kerneltest.NewMemory(kerneltest.Config{})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		return kerneltest.Fixture{
			Kernel:    m,
			HostPath:  kerneltest.HostPath,
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
	})
}
