package kernel_test

import (
	"fmt"
	"testing"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// TestChainAmongMany: with 500 pods attached and 2,000 ports mapped an ADD of the chain sends what it sends on an empty host, and
// takes at most 1.3 times its time: both, turn by turn, on two hosts. What it takes more is the kernel's, which looks through the ports of the
// bridge when one comes.
func TestChainAmongMany(t *testing.T) {
	const pods, ports, turns, most = 500, 4, 50, 1.3
	empty, full := newChainOn(t, sandbox.Namespace(t)), newChainOn(t, sandbox.Namespace(t))
	full.fill(pods, ports)
	addAlone, delAlone := empty.counted(t, 1)
	if add, del := full.counted(t, 1); add != addAlone || del != delAlone {
		t.Errorf("ADD sends %+v, among %d pods %+v; DEL %+v and %+v", addAlone, pods, add, delAlone, del)
	}
	for range tries(t) {
		var alone, among kernel.Clock
		for i := range turns {
			empty.timed(&alone, i)
			full.timed(&among, i)
		}
		ratio := float64(among.Median()) / float64(alone.Median())
		t.Logf("ADD %v, among %d pods with %d ports each %v: %.2f", alone.Median(), pods, ports, among.Median(), ratio)
		if ratio <= most || !sandbox.Timed() {
			return
		}
	}
	t.Errorf("among %d pods an ADD takes more than %.1f of its time", pods, most)
}

// timed times an ADD.
func (c *chain) timed(clock *kernel.Clock, i int) {
	clock.Start()
	c.add(i)
	clock.Stop()
	c.del(i)
	c.k.Settle()
}

// fill attaches so many pods with so many ports each, which stay until the test ends.
func (c *chain) fill(pods, ports int) {
	for i := range pods {
		rt := ported(sandbox.Namespace(c.tb).Path(), fmt.Sprintf("full-%d", i), 1000+i*ports, ports)
		if _, err := c.cni.AddNetworkList(c.tb.Context(), c.list, rt); err != nil {
			c.tb.Fatal(err)
		}
	}
}
