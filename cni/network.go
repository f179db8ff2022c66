package cni

import "strings"

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
// taken for a list of one. Which of the two it is its content says: a list has
// plugins, a single plugin has type. A list without plugins, whose plugins are in
// files of their own, has at least a name. Faults are [*SyntaxError]s with the place.
func ParseNetwork(data []byte) (*Network, error) {
	o, err := ParseObject(data)
	if err != nil {
		return nil, err
	}
	n := &Network{Raw: o}
	_, n.HasPlugins = o.Get("plugins")
	_, hasType := o.Get("type")
	_, hasName := o.Get("name")
	read := n.readList
	switch {
	case !n.HasPlugins && !hasType && !hasName:
		return nil, o.fault("plugins", `is missing, and type too: a network has "name" and "plugins", a single plugin "name" and "type"`)
	case !n.HasPlugins && hasType:
		read = n.readSingle
	}
	if err := read(); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Network) readSingle() error {
	c, err := PluginConfOf(n.Raw)
	if err != nil {
		return err
	}
	n.Single = true
	n.Plugins = []*PluginConf{c}
	return n.readNames()
}

// readNames reads name and cniVersion, which both forms have.
func (n *Network) readNames() error {
	if _, err := n.Raw.Decode("name", &n.Name); err != nil {
		return err
	}
	if n.Name == "" {
		return n.Raw.fault("name", `is missing: name the network, as "name": "net1"`)
	}
	if fault := nameFault(n.Name); fault != "" {
		return n.Raw.fault("name", "%s %s", shown(n.Name), fault)
	}
	if _, err := n.Raw.Decode("cniVersion", &n.CNIVersion); err != nil {
		return err
	}
	if _, err := parseVersion(n.CNIVersion); err != nil {
		return n.Raw.fault("cniVersion", "%w", err)
	}
	return nil
}

func (n *Network) readList() error {
	if err := n.readNames(); err != nil {
		return err
	}
	if err := n.readVersions(); err != nil {
		return err
	}
	for _, f := range []struct {
		key  string
		into *bool
	}{
		{"disableCheck", &n.DisableCheck},
		{"disableGC", &n.DisableGC},
		{"loadOnlyInlinedPlugins", &n.LoadOnlyInlinedPlugins},
	} {
		if err := decodeBool(n.Raw, f.key, f.into); err != nil {
			return err
		}
	}
	switch {
	case n.HasPlugins:
		return n.readPlugins()
	case n.LoadOnlyInlinedPlugins:
		return n.Raw.fault("plugins", "is missing, but with loadOnlyInlinedPlugins they may not stand elsewhere: give plugins or remove it")
	case n.Raw.alike("plugins") != "":
		return n.Raw.fault("plugins", "is missing")
	case n.Raw.alike("type") != "":
		return n.Raw.fault("type", "is missing")
	}
	return nil
}

func (n *Network) readVersions() error {
	versions, ok := n.Raw.get("cniVersions")
	if !ok {
		return nil
	}
	items, err := versions.list()
	if err != nil {
		return err
	}
	for _, item := range items {
		var v string
		if err := item.decode(&v); err != nil {
			return err
		}
		if _, err := parseVersion(v); err != nil {
			return item.fault("%w", err)
		}
		n.CNIVersions = append(n.CNIVersions, v)
	}
	return nil
}

func (n *Network) readPlugins() error {
	items, err := n.Raw.node(n.Raw.index("plugins")).list()
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return n.Raw.fault("plugins", "is empty: a network has at least one plugin")
	}
	for _, item := range items {
		o, err := item.object()
		if err != nil {
			return err
		}
		c, err := PluginConfOf(o)
		if err != nil {
			return err
		}
		n.Plugins = append(n.Plugins, c)
	}
	return nil
}

// decodeBool reads a bool that may also be written as a string, as version 0.4.0 of
// the specification did.
func decodeBool(o *Object, key string, into *bool) error {
	n, ok := o.get(key)
	if !ok {
		return nil
	}
	var word string
	if n.raw[0] == '"' {
		word = strings.ToLower(unquote(n.raw))
	} else {
		word = string(n.raw)
	}
	if word != "true" && word != "false" {
		return n.fault("want true or false, found %s", n.raw)
	}
	*into = word == "true"
	return nil
}
