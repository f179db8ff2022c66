package cni

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const (
	keyCapabilities     = "capabilities"
	keyRuntimeConfig    = "runtimeConfig"
	keyReserved         = "cni.dev/"
	keyValidAttachments = "cni.dev/valid-attachments"
	keyAttachments      = "cni.dev/attachments" // its name before version 1.1.0 was final
)

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

// ParsePluginConf reads a plugin's configuration and checks type, ipam.type (bare file
// names) and name. Name and cniVersion may be missing, as they are inside a list. Faults
// are [*SyntaxError]s.
func ParsePluginConf(data []byte) (*PluginConf, error) {
	o, err := ParseObject(data)
	if err != nil {
		return nil, err
	}
	return PluginConfOf(o)
}

// PluginConfOf is [ParsePluginConf] of what is read already.
func PluginConfOf(o *Object) (*PluginConf, error) {
	c := &PluginConf{Raw: o}
	for _, f := range []struct {
		key  string
		into any
	}{
		{"cniVersion", &c.CNIVersion},
		{"name", &c.Name},
		{"type", &c.Type},
		{keyCapabilities, &c.Capabilities},
	} {
		if _, err := o.Decode(f.key, f.into); err != nil {
			return nil, err
		}
	}
	if c.Name != "" {
		if fault := nameFault(c.Name); fault != "" {
			return nil, o.fault("name", "%s %s", shown(c.Name), fault)
		}
	}
	if err := c.checkType(); err != nil {
		return nil, err
	}
	if err := c.readIPAM(); err != nil {
		return nil, err
	}
	var err error
	c.DNS, err = decodeDNS(o)
	return c, err
}

func (c *PluginConf) checkType() error {
	_, list := c.Raw.get("plugins")
	switch {
	case c.Type == "" && list:
		return c.Raw.fault("type", "is missing: this is a network with a list of plugins, not one plugin")
	case c.Type == "":
		return c.Raw.fault("type", `is missing: name the plugin's program, as "type": "bridge"`)
	}
	if fault := typeFault(c.Type); fault != "" {
		return c.Raw.fault("type", "%s %s", shown(c.Type), fault)
	}
	return nil
}

func (c *PluginConf) readIPAM() error {
	ipam, ok, err := c.Raw.object("ipam")
	if err != nil || !ok {
		return err
	}
	c.HasIPAM = true
	if _, err := ipam.Decode("type", &c.IPAMType); err != nil || c.IPAMType == "" {
		return err
	}
	if fault := typeFault(c.IPAMType); fault != "" {
		return ipam.fault("type", "%s %s", shown(c.IPAMType), fault)
	}
	return nil
}

// PrevResult decodes the prevResult member; nil without one.
func (c *PluginConf) PrevResult() (*Result, error) {
	prev, ok, err := c.Raw.object("prevResult")
	if err != nil || !ok {
		return nil, err
	}
	return decodeResult(prev, c.CNIVersion)
}

// RuntimeConfig decodes the value of a capability out of runtimeConfig into into and
// reports whether it was there.
func (c *PluginConf) RuntimeConfig(capability string, into any) (bool, error) {
	given, ok, err := c.Raw.object(keyRuntimeConfig)
	if err != nil || !ok {
		return false, err
	}
	return given.Decode(capability, into)
}

// Arg decodes args.cni.<key> into into and reports whether it was there.
func (c *PluginConf) Arg(key string, into any) (bool, error) {
	args, ok, err := c.Raw.object("args")
	if err != nil || !ok {
		return false, err
	}
	own, ok, err := args.object("cni")
	if err != nil || !ok {
		return false, err
	}
	return own.Decode(key, into)
}

// ValidAttachments decodes the list that GC brings: cni.dev/valid-attachments, or the
// older cni.dev/attachments. present is true if either key is there, even with
// null.
func (o *Object) ValidAttachments() (list []Attachment, present bool, err error) {
	for _, key := range []string{keyValidAttachments, keyAttachments} {
		if _, ok := o.Get(key); ok {
			_, err := o.Decode(key, &list)
			return list, true, err
		}
	}
	return nil, false, nil
}

// SetValidAttachments puts the list of a GC under both keys. A nil list is written as an empty one: null could be
// taken for no list at all.
func (o *Object) SetValidAttachments(list []Attachment) error {
	if list == nil {
		list = []Attachment{}
	}
	raw, err := encode(list)
	if err != nil {
		return err
	}
	o.Set(keyValidAttachments, raw)
	o.Set(keyAttachments, raw)
	return nil
}

// Attachment names an attachment of a network.
type Attachment struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// Request builds what a plugin reads on standard input (specification, section
// 3, "Deriving request configuration"): the plugin's own members unchanged and in their
// order, without capabilities and cni.dev/*, after cniVersion and name. runtimeConfig is
// what is given of the capabilities that the plugin declares, and not there if that is
// nothing. prevResult is set by the caller, since each plugin's is another.
func (c *PluginConf) Request(name, version string, runtimeConfig map[string]json.RawMessage) *Object {
	req := &Object{path: c.Raw.path}
	req.Set("cniVersion", quote(version))
	req.Set("name", quote(name))
	for _, m := range c.Raw.members {
		switch {
		case m.Key == "cniVersion", m.Key == "name", m.Key == keyCapabilities, m.Key == keyRuntimeConfig:
		case strings.HasPrefix(m.Key, keyReserved):
		default:
			req.Set(m.Key, m.Value)
		}
	}
	var given Object
	for _, capability := range slices.Sorted(maps.Keys(runtimeConfig)) {
		if c.Capabilities[capability] {
			given.Set(capability, runtimeConfig[capability])
		}
	}
	if len(given.members) > 0 {
		req.Set(keyRuntimeConfig, given.Bytes())
	}
	return req
}
