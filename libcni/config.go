package libcni

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// NetworkConfigList is a network: a list of plugins that an attachment goes through. It is made by [ConfListFromBytes] and
// its like, and not changed afterwards; then it is safe for concurrent use.
type NetworkConfigList struct {
	Name       string
	CNIVersion string // the negotiated one; as written if none of those given is spoken
	// DisableCheck and DisableGC make CHECK and GC succeed without running anything.
	DisableCheck           bool
	DisableGC              bool
	LoadOnlyInlinedPlugins bool
	Plugins                []*PluginConfig
	Bytes                  []byte        // as read; without the plugins of the sibling folder
	Source                 string        // the file it was read from; "" for none
	Single                 bool          // Source held one plugin, not a list
	Skipped                []IgnoredFile // files of the sibling folder that are no valid plugin configuration
}

// PluginConfig is the configuration of one plugin.
type PluginConfig struct {
	Network *cni.PluginConf
	Bytes   []byte // as read
	Source  string // the file of the sibling folder it was read from; "" if it stood in the list
}

// IgnoredFile is a configuration file that was not used, and why. Where its text is at fault, Err is a
// [*cni.SyntaxError] with file, line and column.
type IgnoredFile struct {
	File string
	Err  error
}

// String gives the reason with the file's name in it.
func (f IgnoredFile) String() string {
	if text := f.Err.Error(); strings.Contains(text, f.File+":") {
		return text
	}
	return f.File + ": " + f.Err.Error()
}

// ConfListFromBytes reads a network configuration: a list, or one plugin's, which becomes a list of one. Plugins in the folder
// beside a file are [ConfListFromFile]'s; so a list may be without plugins here.
func ConfListFromBytes(data []byte) (*NetworkConfigList, error) {
	network, err := cni.ParseNetwork(data)
	if err != nil {
		return nil, err
	}
	version, err := cni.Negotiate(network.CNIVersion, network.CNIVersions)
	if err != nil {
		// A version from the future is an error of the verbs, not of loading: the network shows up in listings, and DEL of what
		// isn't attached goes through. What is no version at all can't be compared with one.
		if _, bad := cni.Compare(network.CNIVersion, cni.Current); bad != nil {
			return nil, err
		}
		version = cmp.Or(network.CNIVersion, newest(network.CNIVersions))
	}
	list := &NetworkConfigList{
		Name: network.Name, CNIVersion: version,
		DisableCheck: network.DisableCheck, DisableGC: network.DisableGC,
		LoadOnlyInlinedPlugins: network.LoadOnlyInlinedPlugins,
		Bytes:                  data, Single: network.Single,
	}
	if network.LoadOnlyInlinedPlugins && !network.HasPlugins && !network.Single {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "network %s: loadOnlyInlinedPlugins is true but there is no plugins key", network.Name)
	}
	for _, p := range network.Plugins {
		list.Plugins = append(list.Plugins, &PluginConfig{Network: p, Bytes: p.Raw.Bytes()})
	}
	return list, nil
}

// newest is the highest of versions, which all parse.
func newest(versions []string) string {
	best := ""
	for _, v := range versions {
		if best == "" || cni.AtLeast(v, best) {
			best = v
		}
	}
	return best
}

// ConfFromBytes reads the configuration of one plugin.
func ConfFromBytes(data []byte) (*PluginConfig, error) {
	conf, err := cni.ParsePluginConf(data)
	if err != nil {
		return nil, err
	}
	return &PluginConfig{Network: conf, Bytes: data}, nil
}

// ConfListFromConf makes a network with p as its only plugin.
func ConfListFromConf(p *PluginConfig) (*NetworkConfigList, error) {
	if p == nil || p.Network == nil {
		return nil, errNoConfig()
	}
	if err := cni.CheckNetworkName(p.Network.Name); err != nil {
		return nil, err
	}
	list := p.list()
	list.Bytes = list.effective()
	return list, nil
}

// list is p as a network of its own, whose Bytes are p's, as the Go library of the field records it.
func (p *PluginConfig) list() *NetworkConfigList {
	return &NetworkConfigList{
		Name: p.Network.Name, CNIVersion: cmp.Or(p.Network.CNIVersion, "0.1.0"),
		Plugins: []*PluginConfig{p}, Bytes: p.Bytes, Source: p.Source, Single: true,
	}
}

// InjectConf returns a copy of p with members set: a new value in place of one that is there, others after the last, in the
// order of their names. An empty key and a nil value are errors.
func InjectConf(p *PluginConfig, values map[string]any) (*PluginConfig, error) {
	if p == nil || p.Network == nil {
		return nil, errNoConfig()
	}
	raw := p.Network.Raw.Clone()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key == "" {
			return nil, cni.Errorf(cni.CodeInvalidConfig, "inject into configuration of %s: a key is empty", p.Network.Type)
		}
		if values[key] == nil {
			return nil, cni.Errorf(cni.CodeInvalidConfig, "inject into configuration of %s: the value of %q is nil", p.Network.Type, key)
		}
		if err := raw.SetValue(key, values[key]); err != nil {
			return nil, fmt.Errorf("inject %q into configuration of %s: %w", key, p.Network.Type, err)
		}
	}
	injected, err := ConfFromBytes(raw.Bytes())
	if err != nil {
		return nil, err
	}
	injected.Source = p.Source
	return injected, nil
}

// effective is the list as it is run, plugins of the sibling folder included, in a form that
// [ConfListFromBytes] reads.
func (l *NetworkConfigList) effective() []byte {
	plugins := []byte{'['}
	for i, p := range l.Plugins {
		if i > 0 {
			plugins = append(plugins, ',')
		}
		plugins = append(plugins, p.Network.Raw.Bytes()...)
	}
	list := new(cni.Object)
	list.Set("cniVersion", quote(l.CNIVersion))
	list.Set("name", quote(l.Name))
	for _, flag := range []struct {
		key string
		set bool
	}{{"disableCheck", l.DisableCheck}, {"disableGC", l.DisableGC}, {"loadOnlyInlinedPlugins", true}} {
		if flag.set {
			list.Set(flag.key, json.RawMessage("true"))
		}
	}
	list.Set("plugins", append(plugins, ']'))
	return list.Bytes()
}

// quote encodes a string; that never fails.
func quote(s string) json.RawMessage {
	data, _ := json.Marshal(s)
	return data
}

func errNoConfig() error {
	return cni.Errorf(cni.CodeInvalidConfig, "no network configuration is given")
}
