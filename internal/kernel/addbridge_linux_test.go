package kernel_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

// bridgeList is bridge, host-local and portmap, as most single nodes have it.
const bridgeList = `{"cniVersion":"1.1.0","name":"bench","plugins":[
	{"type":"bridge","bridge":"cni1","isGateway":true,"isDefaultGateway":true,
	 "ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.89.0.0/16"}]]}},
	{"type":"portmap","capabilities":{"portMappings":true}}]}`

// runtime is the whole way in this process: runtime, plugins, lease store, kernel. Records and leases are kept below dir.
func runtime(tb testing.TB, dir string) (*libcni.CNI, *libcni.NetworkConfigList, *kernel.Kernel) {
	tb.Helper()
	return setting{dir: dir, conf: fmt.Appendf(nil, bridgeList, dir+"/leases"),
		around: func(k *kernel.Kernel) planned.Kernel { return planned.Wrap(k) }}.runtime(tb)
}

// setting is a runtime with a list of its own.
type setting struct {
	dir    string
	conf   []byte
	host   *netns.Handle // nil is the namespace of this process
	around func(*kernel.Kernel) planned.Kernel
}

func (s setting) runtime(tb testing.TB) (*libcni.CNI, *libcni.NetworkConfigList, *kernel.Kernel) {
	tb.Helper()
	run, k := s.runner(tb)
	c, err := libcni.New(libcni.Config{PluginDirs: []string{s.dir}, StateDir: s.dir + "/state", LockDir: s.dir + "/lock", Runner: run})
	if err != nil {
		tb.Fatal(err)
	}
	list, err := libcni.ConfListFromBytes(s.conf)
	if err != nil {
		tb.Fatal(err)
	}
	return c, list, k
}

// runner runs the plugins of the setting.
func (s setting) runner(tb testing.TB) (*builtin.Runner, *kernel.Kernel) {
	tb.Helper()
	sandbox.Require(tb)
	k, err := kernel.New(kernel.Config{Host: s.host})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { k.Close() })
	store, err := leases.New(leases.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	run := builtin.New(builtin.Config{Plugins: plugins.All(), Kernel: s.around(k), Leases: store, Originals: originals.Store{},
		Mode: builtin.BuiltinOnly})
	return run, k
}

func attachment(path string, i int) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: fmt.Sprintf("bench-%d", i), NetNS: path, IfName: "eth0",
		CapabilityArgs: map[string]any{"portMappings": json.RawMessage(
			fmt.Sprintf(`[{"hostPort":%d,"containerPort":80,"protocol":"tcp"}]`, i%60000+2))},
	}
}

// BenchmarkAddBridge is an ADD of bridge, host-local and portmap in this process, all of it: configuration,
// lock, intent, lease, plan, kernel, record. BenchmarkFloor beside it is the same by raw netlink. The DEL is
// outside the time. It reports what was sent: rtnetlink messages, nft transactions and the messages in them, per ADD.
//
// With memory the files lie in the sandbox's tmpfs, so that what is measured is this code and the kernel's network. With
// disk they lie where temporary files do: there ext4 takes its time to find an inode that was not freed just now, as a loop of
// ADD and DEL frees them.
func BenchmarkAddBridge(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		sandbox.Require(b)
		dir, err := os.MkdirTemp("/var/lib/cni", "bench")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { os.RemoveAll(dir) })
		benchAddBridge(b, dir)
	})
	b.Run("disk", func(b *testing.B) { benchAddBridge(b, b.TempDir()) })
}

func benchAddBridge(b *testing.B, dir string) {
	c, list, k := runtime(b, dir)
	pod := sandbox.Namespace(b)
	warm := attachment(pod.Path(), 0)
	if _, err := c.AddNetworkList(b.Context(), list, warm); err != nil {
		b.Fatal(err)
	}
	if err := c.DelNetworkList(b.Context(), list, warm); err != nil {
		b.Fatal(err)
	}
	var sent kernel.Stats
	var clock kernel.Clock
	i := 0
	for b.Loop() {
		i++
		rt := attachment(pod.Path(), i)
		before := k.Stats()
		clock.Start()
		if _, err := c.AddNetworkList(b.Context(), list, rt); err != nil {
			b.Fatal(err)
		}
		clock.Stop()
		b.StopTimer()
		after := k.Stats()
		sent.Rtnetlink += after.Rtnetlink - before.Rtnetlink
		sent.NftTransactions += after.NftTransactions - before.NftTransactions
		sent.NftMessages += after.NftMessages - before.NftMessages
		if err := c.DelNetworkList(b.Context(), list, rt); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	clock.Report(b)
	b.ReportMetric(float64(sent.Rtnetlink)/float64(i), "rtnl/op")
	b.ReportMetric(float64(sent.NftMessages)/float64(i), "nft/op")
	b.ReportMetric(float64(sent.NftTransactions)/float64(i), "tx/op")
}
