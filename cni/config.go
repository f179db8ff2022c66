package cni

import "encoding/json"

// PluginConf is one plugin's configuration: an element of a list's plugins, or what
// a plugin reads on standard input. The fields are the specification's own; the
// rest is in Raw.
type PluginConf struct {
	CNIVersion   string
	Name         string // the network's
	Type         string
	Capabilities map[string]bool
	IPAMType     string // ipam.type; "" without one
	HasIPAM      bool   // an ipam object is there, even {}
	DNS          DNS
	Raw          *Object
}

// ParsePluginConf reads a plugin's configuration and checks type (a bare file
// name). Name and cniVersion may be missing, as they are inside a list.
func ParsePluginConf(data []byte) (*PluginConf, error) { panic("stub") }

// PrevResult decodes the prevResult member; nil without one.
func (c *PluginConf) PrevResult() (*Result, error) { panic("stub") }

// RuntimeConfig decodes the value of a capability out of runtimeConfig into into and
// reports whether it was there.
func (c *PluginConf) RuntimeConfig(capability string, into any) (bool, error) { panic("stub") }

// Arg decodes args.cni.<key> into into and reports whether it was there.
func (c *PluginConf) Arg(key string, into any) (bool, error) { panic("stub") }

// ValidAttachments decodes the list that GC brings: cni.dev/valid-attachments, or the
// older cni.dev/attachments. present is true if either key is there, even with
// null.
func (c *PluginConf) ValidAttachments() (list []Attachment, present bool, err error) { panic("stub") }

// Attachment names an attachment of a network.
type Attachment struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// Network is a network configuration, a list of plugins (specification, section 1).
type Network struct {
	Name                   string
	CNIVersion             string   // as written
	CNIVersions            []string // as written
	DisableCheck           bool
	DisableGC              bool
	LoadOnlyInlinedPlugins bool
	Plugins                []*PluginConf
	HasPlugins             bool // a plugins key is there
	Single                 bool // the file held one plugin, not a list; Plugins has that one
	Raw                    *Object
}

// ParseNetwork reads a network configuration: a list, or a single plugin's, which is
// taken for a list of one; which of the two it is its content says. Faults
// are [*SyntaxError]s or errors with code 7 that name the place.
func ParseNetwork(data []byte) (*Network, error) { panic("stub") }

// Request builds what a plugin reads on standard input (specification, section
// 3, "Deriving request configuration"): the plugin's own members unchanged,
// without capabilities and cni.dev/*, with name, cniVersion, and the runtimeConfig
// given, if it isn't empty. prevResult is set by the caller, since each plugin's is another.
func (c *PluginConf) Request(name, version string, runtimeConfig map[string]json.RawMessage) *Object {
	panic("stub")
}
