package plugintest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Case is a plugin with a configuration to run it with.
type Case struct {
	Planned planned.Definition // what is tested: a planned plugin,
	Plugin  plugin.Plugin      // or any other,
	Info    plugin.Info        // which this describes

	// Config is the plugin's configuration as it stands in a network's list, with what the runtime adds for capabilities
	// (runtimeConfig). Required. Name, version, prevResult and the list of GC are put in.
	Config string
	Args   string // CNI_ARGS; default none
	IfName string // default eth0
	// Prev is the result of the plugin before this one; nil for the first of a list. Its interfaces and addresses are
	// made before ADD: those with a Sandbox, whatever it says, in the pod. [Attached] gives the usual one.
	Prev *cni.Result
	// IPAM is what the IPAM plugin that Config names gives. It stands for that plugin, and must get back what it gave.
	// Required for a planned plugin that uses IPAM.
	IPAM *cni.Result
	// Want are beginnings of lines, in the text form of package netstate, which must be there after ADD. They are looked
	// for in the kernel in memory alone: with Scratch, CHECK has to do.
	Want []string
	// Stays are beginnings of lines, as in Want, that a failed ADD, DEL and GC may leave, by design.
	Stays []string
	// Refused are configurations that ADD must refuse with code 7 before it does anything.
	Refused []string
	// Scratch runs the plugin on this machine's kernel, in scratch namespaces. The test is skipped where the user may not make
	// some; `unshare -Urn go test` gives the right to everybody. A plugin that isn't planned is called on a
	// thread of the scratch host: goroutines that it starts are elsewhere.
	Scratch bool
}

// Attached is the result of a plugin that gave a pod the interface eth0 with addresses, such as 10.1.0.2/24. The other end of
// the pair is veth0 on the host. It panics on an address that it can't read.
func Attached(addresses ...string) *cni.Result {
	res := &cni.Result{Interfaces: []cni.Interface{
		{Name: "veth0", MAC: "0a:58:00:00:00:01"}, {Name: "eth0", MAC: "0a:58:00:00:00:02", Sandbox: "pod"},
	}}
	for _, a := range addresses {
		res.IPs = append(res.IPs, cni.IP{Address: netip.MustParsePrefix(a), Interface: cni.Some(1)})
	}
	return res
}

// Run runs the case: a subtest for each version, and in it one for each demand.
func Run(t *testing.T, c Case) {
	t.Helper()
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	for _, version := range c.versions() {
		t.Run(version, func(t *testing.T) {
			for _, d := range demands(t, c, version) {
				t.Run(d.name, func(t *testing.T) {
					if err := d.try(t, c, version); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// complete checks the case and fills in defaults.
func (c *Case) complete() error {
	if c.Planned.Info.Type != "" {
		if c.Plugin != nil {
			return errors.New("case has both Planned and Plugin")
		}
		c.Info = c.Planned.Info
	} else if c.Plugin == nil {
		return errors.New("case has neither Planned nor Plugin")
	}
	if c.IfName == "" {
		c.IfName = "eth0"
	}
	conf, err := cni.ParseObject([]byte(c.Config))
	if err != nil {
		return fmt.Errorf("case's Config: %w", err)
	}
	var typ string
	if _, err := conf.Decode("type", &typ); err != nil || typ != c.Info.Type {
		return fmt.Errorf("case's Config is of type %q, the plugin of %q", typ, c.Info.Type)
	}
	return nil
}

// versions are those the plugin speaks and that have a form for what stands before it.
func (c *Case) versions() []string {
	versions := c.Info.Versions
	if len(versions) == 0 {
		versions = cni.Versions()
	}
	return slices.DeleteFunc(slices.Clone(versions), func(v string) bool {
		return c.Prev != nil && len(c.Prev.IPs) == 0 && !cni.AtLeast(v, "0.3.0")
	})
}

// newest is the version for demands that have nothing to do with versions.
func (c *Case) newest() string { return c.versions()[len(c.versions())-1] }
