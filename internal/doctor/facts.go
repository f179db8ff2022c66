package doctor

import (
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/internal/hostnet"
	"github.com/cleat-cni/cleat/internal/lint"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// Fact names facts that may be missing: for want of rights, or since they could not be gathered in time.
type Fact string

// The facts that may be missing.
const (
	ofState    Fact = "state"    // records and leases
	ofKernel   Fact = "kernel"   // what netlink tells
	ofFeatures Fact = "features" // what was tried out of the host's sight
	ofLeft     Fact = "left"     // what a collection would free
)

// MissingFacts are all facts that may be missing, for whoever gathers them.
func MissingFacts() []Fact { return []Fact{ofState, ofKernel, ofFeatures, ofLeft} }

// Facts is what was gathered of a node.
type Facts struct {
	FS      fs.FS           // the machine's root: /proc, /sys, /etc, /var, /run
	Missing map[Fact]string // facts that could not be gathered, and why
	Now     time.Time

	ConfDir, StateDir string
	PluginDirs        []string

	Net      hostnet.State
	Kernel   netstate.Facts // NoNFTables, Forward, Firewalld
	Features []Feature
	Disks    []Disk

	Networks    []*libcni.NetworkConfigList
	Configs     int            // files that are configurations by their name
	Findings    []lint.Finding // of the configurations
	Plugins     []Plugin
	Steps       []Step
	Attachments []*libcni.NetworkAttachment
	Left        []libcni.Collected
	Ready       []Readiness
}

// Feature is something that the kernel can do, or not.
type Feature struct {
	Name string // as in "VLANs of bridges"
	Err  error  // why not
	Used bool   // some network needs it
}

// Disk is the file system that a folder lies on.
type Disk struct {
	Path                                    string
	FreeBytes, Bytes, FreeInodes, AllInodes uint64
}

// Plugin is a plugin of some network.
type Plugin struct {
	Type     string
	Where    string
	Versions []string
	Networks []Use // that name it
	// OtherBuild: it is a cleat-cni of another build than this program's.
	OtherBuild bool
	Err        error // it is not there
}

// Use is a network that names a plugin, with the version that the plugin is called in.
type Use struct{ Network, Version string }

// Step is a plugin of a network, with what it would do.
type Step struct {
	Network string
	planned.Rehearsal
}

// Readiness says whether a plugin of a network could serve an ADD.
type Readiness struct {
	Network, Plugin string
	Err             error
	Fix             string
}

// text is the content of a file of the machine, without white space at its ends; "" if it can't be read.
func (f *Facts) text(path string) string {
	data, err := fs.ReadFile(f.FS, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// has reports whether the machine has a file or folder.
func (f *Facts) has(path string) bool {
	_, err := fs.Stat(f.FS, path)
	return err == nil
}

// number is a file's content as a number, and whether it is one.
func (f *Facts) number(path string) (int, bool) {
	n, err := strconv.Atoi(f.text(path))
	return n, err == nil
}

// sysctl is a value below /proc/sys.
func (f *Facts) sysctl(name string) string { return f.text("proc/sys/" + name) }

// living are the attachments that are there.
func (f *Facts) living() []*libcni.NetworkAttachment {
	return slices.DeleteFunc(slices.Clone(f.Attachments), func(a *libcni.NetworkAttachment) bool { return a.State != libcni.StateAttached })
}

// hasFamily reports whether some network gives addresses of a family.
func (f *Facts) hasFamily(v6 bool) bool {
	return slices.ContainsFunc(f.Steps, func(s Step) bool {
		return slices.ContainsFunc(s.subnets(), func(p netip.Prefix) bool { return p.Addr().Is6() == v6 })
	})
}

// subnets are the networks that the step gives addresses of.
func (s Step) subnets() []netip.Prefix {
	var all []netip.Prefix
	for _, set := range s.Allocation.Pool.Sets {
		for _, r := range set {
			all = append(all, r.Subnet)
		}
	}
	for _, ip := range s.Allocation.Fixed {
		all = append(all, ip.Address.Masked())
	}
	return all
}

// forwards reports whether the step lets the host forward packets of a family.
func (s Step) forwards(name string) bool {
	return slices.ContainsFunc(s.Plan.State.Sysctls, func(v netstate.Sysctl) bool {
		return v.Place == netstate.Host && v.Name == name && v.Value == "1"
	})
}

// bridges are the bridges of the host that networks make.
func (f *Facts) bridges() []string {
	var names []string
	for _, s := range f.Steps {
		for _, l := range s.Plan.State.Links {
			if l.Kind == "bridge" && l.Place == netstate.Host && !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

// without are the networks in whose list no plugin of a type stands, of those that make an interface.
func (f *Facts) without(typ string) []string {
	var names []string
	for _, n := range f.Networks {
		has := slices.ContainsFunc(n.Plugins, func(p *libcni.PluginConfig) bool { return p.Network.Type == typ })
		if !has && f.routed(n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

// routed reports whether the host forwards what pods of a network send.
func (f *Facts) routed(network string) bool {
	return slices.ContainsFunc(f.Steps, func(s Step) bool {
		return s.Network == network && (s.forwards("net/ipv4/ip_forward") || s.forwards("net/ipv6/conf/all/forwarding"))
	})
}

// runsRuntime reports whether a container runtime of Kubernetes is set up here.
func (f *Facts) runsRuntime() bool {
	return f.has("etc/containerd/config.toml") || f.has("etc/crio/crio.conf") || f.has("var/lib/kubelet/config.yaml")
}
