package plugins_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// TestWithoutNFTables: on a kernel that has no nf_tables what doesn't ask for it is done by iptables, and removed whatever
// DEL knows.
func TestWithoutNFTables(t *testing.T) {
	network := strings.Replace(podNetwork, `"macspoofchk":true,`, "", 1)
	k := kerneltest.NewMemory(kerneltest.Config{NoNFTables: true})
	n := newNode(k)
	var before string
	for i, forget := range []func(a *attachment){
		func(*attachment) {},
		func(*attachment) {},
		func(a *attachment) { a.prev = nil },
		func(a *attachment) { a.netns, a.prev, a.ports = "", nil, nil },
		// A configuration that can't be read any more: by the mark, wherever it may be.
		func(a *attachment) { a.network = strings.Replace(a.network, `"ipMasq":true`, `"ipMasq":"yes"`, 1) },
	} {
		pod := k.NewPod()
		a := &attachment{network: network, pod: 2, netns: pod, ports: []cni.PortMapping{tcp(8080, 80)}}
		n.add(t, a)
		if found := n.check(t, a); found != "" {
			t.Errorf("run %d: CHECK: %s", i, found)
		}
		dump := k.Dump()
		if strings.Contains(dump, " nft ") || !strings.Contains(dump, "CLEAT-MASQ rule -s 10.88.0.2/32") || !strings.Contains(dump, "CLEAT-tcp-8080") {
			t.Errorf("run %d:\n%s", i, dump)
		}
		forget(a)
		n.del(t, a)
		if err := k.RemovePod(pod); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			before = k.Dump()
		} else if diff := cmp.Diff(before, k.Dump()); diff != "" {
			t.Errorf("run %d left something (-before +after)\n%s", i, diff)
		}
	}
}

// TestNFTablesAskedFor: what asks for nf_tables does not get something else, and STATUS says so.
func TestNFTablesAskedFor(t *testing.T) {
	k := kerneltest.NewMemory(kerneltest.Config{NoNFTables: true})
	n := newNode(k)
	a := &attachment{network: strings.Replace(podNetwork, `"type":"portmap"`, `"type":"portmap","backend":"nftables"`, 1), pod: 2,
		netns: k.NewPod(), ports: []cni.PortMapping{tcp(8080, 80)}}
	if err := n.tryAdd(t, a); !errors.Is(err, netstate.ErrUnsupported) {
		t.Errorf("ADD = %v, want %v", err, netstate.ErrUnsupported)
	}
	for _, step := range a.steps(t, cni.VerbStatus) {
		if step.Def.Info.Type != "portmap" {
			continue
		}
		if err := n.engine.Status(t.Context(), planned.Step{Def: step.Def, Req: step.Req}); cni.CodeOf(err) != cni.CodeNotAvailable {
			t.Errorf("STATUS = %v, want code %d", err, cni.CodeNotAvailable)
		}
	}
}
