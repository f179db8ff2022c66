package doctor

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/hostnet"
	"github.com/cleat-cni/cleat/internal/lint"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

var update = flag.Bool("update", false, "rewrite docs/doctor.md")

// machine is the files of a healthy node, by their names.
func machine() fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"proc/sys/kernel/osrelease":                   "6.1.0-25-amd64",
		"proc/sys/net/ipv4/ip_forward":                "1",
		"proc/sys/net/ipv6/conf/all/forwarding":       "1",
		"proc/sys/net/ipv6/conf/all/disable_ipv6":     "0",
		"proc/sys/net/ipv6/conf/eth0/accept_ra":       "2",
		"proc/sys/net/ipv4/conf/all/rp_filter":        "0",
		"proc/sys/net/bridge/bridge-nf-call-iptables": "1",
		"proc/sys/net/netfilter/nf_conntrack_count":   "100",
		"proc/sys/net/netfilter/nf_conntrack_max":     "1000",
		"proc/sys/net/ipv4/neigh/default/gc_thresh3":  "1024",
		"proc/net/arp":                                    "IP address HW type\n10.1.0.2 0x1\n",
		"proc/sys/net/ipv4/ip_local_port_range":           "32768\t60999",
		"proc/sys/fs/inotify/max_user_instances":          "1024",
		"etc/cni/net.d/10-pods.conflist":                  "{}",
		"opt/cni/bin/loopback":                            "ELF",
		"etc/containerd/config.toml":                      "[plugins]\n  bin_dir = \"/opt/cni/bin\"\n  conf_dir = \"/etc/cni/net.d/\"\n",
		"usr/sbin/iptables-restore":                       "ELF",
		"usr/sbin/ip6tables-restore":                      "ELF",
		"var/lib/cni/results/pods-c1-eth0":                "{}",
		"var/lib/cni/networks/pods/10.1.0.2":              "c1\r\neth0",
		"var/lib/cni/networks/pods/lock":                  "",
		"run/netns/blue":                                  "",
		"proc/self/mountinfo":                             "100 20 0:4 net:[4026532] /run/netns/blue rw shared:1 - nsfs nsfs rw\n",
		"run/NetworkManager/devices":                      "",
		"etc/NetworkManager/conf.d/10-unmanaged-cni.conf": "[keyfile]\nunmanaged-devices=interface-name:cni*\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644}
	}
	return files
}

// set changes a file of the machine; "" removes it.
func (f *Facts) set(name, text string) {
	files := f.FS.(fstest.MapFS)
	if text == "" {
		delete(files, name)
		return
	}
	files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
}

const podsList = `{"cniVersion":"1.1.0","name":"pods","plugins":[{"type":"bridge","bridge":"cni0"},{"type":"firewall"}]}`

func network(t testing.TB, text string) *libcni.NetworkConfigList {
	t.Helper()
	list, err := libcni.ConfListFromBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// healthy is a node with one network and one pod, of which no check has anything to say.
func healthy(t testing.TB) *Facts {
	p := netip.MustParsePrefix
	on := func(name string) netstate.Sysctl {
		return netstate.Sysctl{Place: netstate.Host, Name: name, Value: "1", Shared: true}
	}
	step := Step{Network: "pods", Rehearsal: planned.Rehearsal{
		Plan: planned.Plan{State: netstate.State{
			Links:   []netstate.Link{{Place: netstate.Host, Name: "cni0", Kind: "bridge", Shared: true}, {Place: netstate.Pod, Name: "eth0", Kind: "veth"}},
			Routes:  []netstate.Route{{Place: netstate.Pod, Dst: p("0.0.0.0/0"), Dev: "eth0"}},
			Sysctls: []netstate.Sysctl{on("net/ipv4/ip_forward"), on("net/ipv6/conf/all/forwarding")},
		}},
		Allocation: planned.Allocation{Pool: netstate.Pool{Network: "pods", Dir: "/var/lib/cni/networks", Sets: [][]netstate.Range{
			{{Subnet: p("10.1.0.0/28"), Start: netip.MustParseAddr("10.1.0.1"), End: netip.MustParseAddr("10.1.0.14"), Gateway: netip.MustParseAddr("10.1.0.1")}},
			{{Subnet: p("fd00::/64"), Start: netip.MustParseAddr("fd00::1"), End: netip.MustParseAddr("fd00::ffff:ffff:ffff:ffff")}},
		}}},
	}}
	return &Facts{
		FS: machine(), ConfDir: "/etc/cni/net.d", StateDir: "/var/lib/cni", PluginDirs: []string{"/opt/cni/bin"},
		Net: hostnet.State{
			Links:  []hostnet.Link{{Name: "eth0", MTU: 1500}, {Name: "cni0", MTU: 1500, Ports: 1}},
			Routes: []hostnet.Route{{Dst: p("0.0.0.0/0"), Dev: "eth0"}, {Dst: p("::/0"), Dev: "eth0"}, {Dst: p("10.1.0.0/28"), Dev: "cni0"}},
		},
		Features: []Feature{{Name: "bridges", Used: true}},
		Disks:    []Disk{{Path: "/var/lib/cni", FreeBytes: 1 << 30, Bytes: 2 << 30, FreeInodes: 1000, AllInodes: 2000}},
		Networks: []*libcni.NetworkConfigList{network(t, podsList)}, Configs: 1,
		Plugins: []Plugin{{Type: "bridge", Where: "built in", Versions: cni.Versions(), Networks: []Use{{"pods", "1.1.0"}}}},
		Steps:   []Step{step}, Attachments: []*libcni.NetworkAttachment{pod("c1", "10.1.0.2")},
		Ready: []Readiness{{Network: "pods", Plugin: "bridge"}},
	}
}

// pod is a living attachment to pods.
func pod(id, addr string) *libcni.NetworkAttachment {
	return &libcni.NetworkAttachment{
		ContainerID: id, Network: "pods", IfName: "eth0", State: libcni.StateAttached,
		Result: &cni.Result{IPs: []cni.IP{{Address: netip.MustParsePrefix(addr + "/28")}}},
	}
}

// fault is something that is wrong with a node, and what is said of it.
type fault struct {
	check, name string
	seed        func(f *Facts)
	status      Status
	says        string
}

func TestHealthy(t *testing.T) {
	all, err := Examine(healthy(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 35 {
		t.Errorf("%d checks, want at least 35", len(all))
	}
	for _, r := range all {
		if r.Status != OK || r.Message == "" || r.Fix != "" || r.Check == "" {
			t.Errorf("a healthy node: %+v", r)
		}
	}
}

func TestFaults(t *testing.T) {
	seeded := map[string]bool{}
	for _, x := range slices.Concat(kernelFaults(), networkFaults(t), stateFaults()) {
		seeded[x.check] = true
		t.Run(x.check+"/"+x.name, func(t *testing.T) {
			f := healthy(t)
			x.seed(f)
			got, err := Examine(f, []string{x.check})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || got[0].Status != x.status || !strings.Contains(got[0].Message, x.says) {
				t.Errorf("found %+v, want one that is %s and says %q", got, x.status, x.says)
			}
			if len(got) > 0 && got[0].Status != OK && got[0].Fix == "" {
				t.Error("what to do is not said")
			}
			if c, _ := CheckOf(x.check); !c.Fixes && len(got) > 0 && !got[0].Remedy().IsZero() {
				t.Error("there is a remedy, and the check doesn't say that it has any")
			}
		})
	}
	for _, c := range Checks() {
		if !seeded[c.Name] {
			t.Errorf("no fault is seeded for %s", c.Name)
		}
		if c.Looks == "" || c.Why == "" || c.Mend == "" || c.Good == "" {
			t.Errorf("%s does not say what it looks at, why, how to mend it, or that all is well", c.Name)
		}
	}
}

func TestSkipped(t *testing.T) {
	f := healthy(t)
	f.Missing = map[Fact]string{}
	for _, fact := range MissingFacts() {
		f.Missing[fact] = "only root can look"
	}
	all, err := Examine(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, r := range all {
		c, _ := CheckOf(r.Check)
		if (c.Needs != "") != (r.Status == Skipped) {
			t.Errorf("%s needs %q and is %s", r.Check, c.Needs, r.Status)
		}
		if r.Status == Skipped {
			skipped++
		}
	}
	if skipped == 0 || skipped == len(all) {
		t.Errorf("%d of %d are skipped", skipped, len(all))
	}
}

func TestUnknownCheck(t *testing.T) {
	if _, err := Examine(healthy(t), []string{"no-such"}); err == nil {
		t.Error("no error for a check that is none")
	}
}

func kernelFaults() []fault {
	set := func(name, text string) func(f *Facts) { return func(f *Facts) { f.set(name, text) } }
	return []fault{
		{"kernel-release", "old", set("proc/sys/kernel/osrelease", "4.19.0-6"), Failed, "4.19.0-6"},
		{"kernel-release", "odd", set("proc/sys/kernel/osrelease", "5.4-rc1"), Failed, "5.4"},
		{"kernel-release", "unknown", set("proc/sys/kernel/osrelease", "x"), OK, ""},
		{"kernel-features", "used", func(f *Facts) { f.Features[0].Err = errors.New("not supported") }, Failed, "bridges: not supported"},
		{"kernel-features", "unused", func(f *Facts) { f.Features = []Feature{{Name: "shaping", Err: errors.New("no ifb")}} }, Warning, "no network uses"},
		{"nftables", "iptables-there", func(f *Facts) { f.Kernel.NoNFTables = true }, Warning, "in its place"},
		{"nftables", "nothing-there", func(f *Facts) { f.Kernel.NoNFTables = true; f.set("usr/sbin/iptables-restore", "") }, Failed, "either"},
		{"ip-forward", "off", set("proc/sys/net/ipv4/ip_forward", "0"), Failed, "does not forward IPv4"},
		{"ip-forward", "off-without-pods", func(f *Facts) { f.set("proc/sys/net/ipv4/ip_forward", "0"); f.Attachments = nil }, OK, ""},
		{"ipv6-forward", "off", set("proc/sys/net/ipv6/conf/all/forwarding", "0"), Failed, "does not forward IPv6"},
		{"ipv6-off", "sysctl", set("proc/sys/net/ipv6/conf/all/disable_ipv6", "1"), Failed, "off for all interfaces"},
		{"ipv6-off", "kernel", func(f *Facts) {
			for name := range f.FS.(fstest.MapFS) {
				if strings.HasPrefix(name, "proc/sys/net/ipv6") {
					f.set(name, "")
				}
			}
		}, Failed, "no IPv6"},
		{"ra-forwarding", "one", set("proc/sys/net/ipv6/conf/eth0/accept_ra", "1"), Warning, "accept_ra is 1"},
		{"reverse-path", "strict", func(f *Facts) {
			f.Steps[0].Plan.State.Links[1] = netstate.Link{Place: netstate.Pod, Name: "eth0", Kind: "macvlan", Master: "eth1"}
			f.set("proc/sys/net/ipv4/conf/eth1/rp_filter", "1")
		}, Warning, "eth1"},
		{"bridge-netfilter", "drops", func(f *Facts) {
			f.Kernel.Forward = []string{"ip"}
			f.Networks[0].Plugins = f.Networks[0].Plugins[:1]
		}, Warning, "those of pods"},
		{"bridge-netfilter", "kubelet", func(f *Facts) {
			f.set("var/lib/kubelet/config.yaml", "x")
			f.set("proc/sys/net/bridge/bridge-nf-call-iptables", "0")
		}, Warning, "kube-proxy"},
		{"conntrack-table", "full", set("proc/sys/net/netfilter/nf_conntrack_count", "950"), Failed, "950 of 1000"},
		{"conntrack-table", "nearly", set("proc/sys/net/netfilter/nf_conntrack_count", "750"), Warning, "750 of 1000"},
		{"neighbour-table", "small", set("proc/sys/net/ipv4/neigh/default/gc_thresh3", "1"), Warning, "keeps 1"},
		{"port-range", "in-it", func(f *Facts) {
			f.Attachments[0].CapabilityArgs = map[string]any{"portMappings": json.RawMessage(`[{"hostPort":40000,"containerPort":80,"protocol":"tcp"}]`)}
		}, Warning, "40000"},
		{"port-range", "kept", func(f *Facts) {
			f.Attachments[0].CapabilityArgs = map[string]any{"portMappings": json.RawMessage(`[{"hostPort":40000,"containerPort":80,"protocol":"tcp"}]`)}
			f.set("proc/sys/net/ipv4/ip_local_reserved_ports", "39999,40000")
		}, OK, ""},
		{"inotify-limit", "small", set("proc/sys/fs/inotify/max_user_instances", "64"), Warning, "64 watchers"},
		{"iptables-mixture", "both", func(f *Facts) { f.Kernel.Forward = []string{"ip"}; f.set("proc/net/ip_tables_names", "nat\nfilter") }, Warning, "nat, filter"},
	}
}

func networkFaults(t *testing.T) []fault {
	finding := func(rule string, severity lint.Severity) func(f *Facts) {
		return func(f *Facts) {
			f.Findings = []lint.Finding{{File: "a.conflist", Line: 3, Column: 4, Rule: rule, Severity: severity, Message: "wrong", Hint: "do"}}
		}
	}
	withoutFirewall := func(f *Facts) { f.Networks[0].Plugins = f.Networks[0].Plugins[:1] }
	return []fault{
		{"iptables-programs", "missing", func(f *Facts) {
			f.Networks = []*libcni.NetworkConfigList{network(t, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"firewall","backend":"iptables"}]}`)}
			f.set("usr/sbin/ip6tables-restore", "")
		}, Failed, "ip6tables-restore is not there"},
		{"forward-chain", "nft", func(f *Facts) { withoutFirewall(f); f.Kernel.Forward = []string{"ip"} }, Warning, "pods of pods"},
		{"forward-chain", "legacy", func(f *Facts) { withoutFirewall(f); f.set("proc/net/ip_tables_names", "filter") }, Warning, "FORWARD"},
		{"firewalld", "runs", func(f *Facts) { withoutFirewall(f); f.Kernel.Firewalld = true }, Warning, "none of its zones"},
		{"uplink", "missing", func(f *Facts) { f.Net.Routes = nil }, Warning, "no default route"},
		{"bridge-mtu", "large", func(f *Facts) { f.Net.Links[1].MTU = 9000 }, Warning, "9000"},
		{"bridge-ports", "full", func(f *Facts) { f.Net.Links[1].Ports = 1023 }, Failed, "all of its 1023"},
		{"bridge-ports", "nearly", func(f *Facts) { f.Net.Links[1].Ports = 950 }, Warning, "950 of 1023"},
		{"bridge-down", "down", func(f *Facts) { f.Net.Links[1].Down = true }, Failed, "is down"},
		{"bridge-down", "gone", func(f *Facts) { f.Net.Links = f.Net.Links[:1] }, Failed, "is gone"},
		{"host-overlap", "route", finding("L605", lint.Warning), Warning, "a.conflist:3:4: wrong"},
		{"host-overlap", "networks", finding("L401", lint.Warning), Warning, "wrong"},
		{"networkmanager", "manages", func(f *Facts) { f.set("etc/NetworkManager/conf.d/10-unmanaged-cni.conf", "") }, Warning, "NetworkManager runs"},
		{"networks", "none", func(f *Facts) { f.Networks, f.Configs = nil, 0 }, Failed, "no network is configured"},
		{"networks", "none-usable", func(f *Facts) { f.Networks = nil }, Failed, "none of the 1 files"},
		{"configurations", "error", finding("L101", lint.Error), Failed, "a.conflist:3:4: wrong"},
		{"configurations", "told-elsewhere", finding("L601", lint.Error), OK, ""},
		{"advice", "warning", finding("L307", lint.Warning), Warning, "wrong"},
		{"default-network", "broken", finding("L502", lint.Warning), Warning, "wrong"},
		{"default-network", "told", finding("L502", lint.Info), OK, ""},
		{"plugins-installed", "missing", func(f *Facts) { f.Plugins[0].Err = errors.New("not found") }, Failed, "bridge, which pods names"},
		{"plugin-versions", "old", func(f *Facts) { f.Plugins[0].Versions = []string{"0.4.0"} }, Failed, "does not speak 1.1.0"},
		{"plugin-builds", "other", func(f *Facts) { f.Plugins[0].OtherBuild = true }, Warning, "another build"},
		{"plugin-folders", "missing", func(f *Facts) { f.set("opt/cni/bin/loopback", "") }, Failed, "no folder of plugins"},
		{"loopback", "missing", func(f *Facts) { f.set("opt/cni/bin/loopback", ""); f.set("opt/cni/bin/bridge", "x") }, Failed, "loopback"},
		{"runtime-folders", "containerd", func(f *Facts) { f.set("etc/containerd/config.toml", "bin_dirs = ['/usr/lib/cni']") }, Warning, "/usr/lib/cni"},
		{"runtime-folders", "crio", func(f *Facts) { f.set("etc/crio/crio.conf.d/10-x.conf", `network_dir = "/etc/crio/net.d"`) }, Warning, "/etc/crio/net.d"},
		{"open-folders", "file", func(f *Facts) { f.FS.(fstest.MapFS)["opt/cni/bin/loopback"].Mode = 0o777 }, Failed, "/opt/cni/bin/loopback"},
		{"open-folders", "folder", func(f *Facts) { f.FS.(fstest.MapFS)["etc/cni/net.d"] = &fstest.MapFile{Mode: fs.ModeDir | 0o777} }, Failed, "/etc/cni/net.d (mode"},
		{"ready", "not", func(f *Facts) { f.Ready[0].Err, f.Ready[0].Fix = errors.New("no master"), "make one" }, Failed, "no master"},
	}
}

func stateFaults() []fault {
	add := func(a *libcni.NetworkAttachment) func(f *Facts) {
		return func(f *Facts) { f.Attachments = append(f.Attachments, a) }
	}
	broken := func(id string) *libcni.NetworkAttachment {
		return &libcni.NetworkAttachment{File: "/var/lib/cni/results/x", ContainerID: id, State: libcni.StateBroken, Err: errors.New("cut short")}
	}
	orphan := pod("c2", "10.1.0.3")
	orphan.State = libcni.StateOrphan
	taken := func(n int) func(f *Facts) {
		return func(f *Facts) {
			for i := range n {
				f.set(fmt.Sprintf("var/lib/cni/networks/pods/10.1.0.%d", i+2), "c")
			}
		}
	}
	left := func(kind string) func(f *Facts) {
		return func(f *Facts) {
			f.Left = []libcni.Collected{{Kind: "attachment", Name: "a"}, {Kind: kind, Name: "host " + kind + " 10.1.0.9 owner x"}}
		}
	}
	return []fault{
		{"state-folder", "file", func(f *Facts) { f.set("var/lib/cni/results/pods-c1-eth0", ""); f.set("var/lib/cni/results", "x") }, Failed, "/var/lib/cni/results is no folder"},
		{"broken-records", "cut", add(broken("")), Warning, "cut short"},
		{"broken-records", "unfinished", add(broken("c2")), OK, ""},
		{"unfinished-adds", "one", add(broken("c2")), Warning, "c2"},
		{"orphans", "one", add(orphan), Warning, "namespace gone: pods/c2/eth0"},
		{"stale-leases", "one", left("lease"), Warning, "taken by nobody: lease 10.1.0.9"},
		{"leftovers", "one", left("element"), Warning, "host element 10.1.0.9"},
		{"leftovers", "an-orphan's", func(f *Facts) {
			owner := netstate.Owner{Network: "pods", ContainerID: "c1", IfName: "eth0"}
			f.Left = []libcni.Collected{{Kind: "link", Name: "host link veth1", Mark: owner.Mark()}}
		}, OK, ""},
		{"many-records", "many", func(f *Facts) { f.Attachments = make([]*libcni.NetworkAttachment, 6000) }, Warning, "6000"},
		{"empty-leases", "one", func(f *Facts) {
			f.FS.(fstest.MapFS)["var/lib/cni/networks/pods/10.1.0.9"] = &fstest.MapFile{Mode: 0o644}
		}, Warning, "10.1.0.9 is empty"},
		{"full-pools", "full", taken(13), Failed, "no free address of 10.1.0.0/28"},
		{"full-pools", "nearly", taken(12), Warning, "1 free addresses"},
		{"duplicate-addresses", "two", add(pod("c2", "10.1.0.2")), Failed, "10.1.0.2 belongs to pods/c1/eth0 and to pods/c2/eth0"},
		{"outside-range", "old-range", add(pod("c2", "10.9.0.2")), Warning, "10.9.0.2 of pods/c2"},
		{"dead-namespaces", "one", func(f *Facts) { f.set("run/netns/gone", " ") }, Warning, "/run/netns/gone"},
		{"disk-space", "full", func(f *Facts) { f.Disks[0].FreeBytes = 1 << 20 }, Failed, "1024 KiB"},
		{"disk-space", "inodes", func(f *Facts) { f.Disks[0].FreeInodes = 3 }, Failed, "3 inodes"},
		{"disk-space", "nearly", func(f *Facts) { f.Disks[0].FreeBytes, f.Disks[0].Bytes = 32<<20, 100<<30 }, Warning, "nearly full"},
	}
}

// TestGeneratedChecks keeps the table of docs/doctor.md, behind its introduction, as it is made. -update rewrites it.
func TestGeneratedChecks(t *testing.T) {
	const mark = "<!-- from here on made by: go test ./internal/doctor -update -->\n"
	path := filepath.Join("..", "..", "docs", "doctor.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	introduction, have, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no line %s", path, mark)
	}
	var b strings.Builder
	b.WriteString("\n| check | looks at | why | what to do | `--fix` |\n|---|---|---|---|---|\n")
	for _, c := range Checks() {
		fixes := ""
		if c.Fixes {
			fixes = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.Name, c.Looks, c.Why, c.Mend, fixes)
	}
	if *update {
		if err := os.WriteFile(path, []byte(introduction+mark+b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), have); diff != "" {
		t.Errorf("docs/doctor.md is not what is made now (go test ./internal/doctor -update) (-want +have):\n%s", diff)
	}
}
