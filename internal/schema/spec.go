package schema

import "github.com/cleat-cni/cleat/cni"

// listConf are the keys of a network (specification, section 1).
type listConf struct {
	CNIVersion   string   `json:"cniVersion" schema:"required" doc:"version of the specification that plugins are called in"`
	CNIVersions  []string `json:"cniVersions" doc:"versions out of which a runtime takes the highest that it knows"`
	Name         string   `json:"name" schema:"required" doc:"name of the network, which no other one on this host has"`
	DisableCheck bool     `json:"disableCheck" schema:"default=false" doc:"CHECK is never called"`
	DisableGC    bool     `json:"disableGC" schema:"default=false" doc:"GC is never called"`
	OnlyInlined  bool     `json:"loadOnlyInlinedPlugins" schema:"default=false" doc:"no plugins are added from the folder of the network's name"`
	Plugins      []any    `json:"plugins" schema:"nonempty" doc:"the plugins that an attachment goes through, in order"`
}

// pluginConf are the keys that any plugin's object may have, whatever the plugin.
type pluginConf struct {
	Type         string          `json:"type" schema:"required,nonempty" doc:"the plugin: the name of its program"`
	Name         string          `json:"name" doc:"name of the network, where the object is not in a list"`
	CNIVersion   string          `json:"cniVersion" doc:"version of the specification, where the object is not in a list"`
	Capabilities map[string]bool `json:"capabilities" doc:"what the runtime may ask this plugin for"`
	Args         argsConf        `json:"args" doc:"what is passed on from outside of the configuration"`
}

// argsConf is the section that keeps apart whose arguments are whose.
type argsConf struct {
	CNI map[string]any `json:"cni" doc:"arguments of plugins"`
}

// addressConf are the keys of a plugin that takes addresses.
type addressConf struct {
	IPAM ipamConf `json:"ipam" doc:"the plugin that gives addresses, and its configuration"`
	DNS  cni.DNS  `json:"dns" doc:"DNS settings of the pod, in place of those that come with its addresses"`
}

// ipamConf are the keys that any ipam section may have.
type ipamConf struct {
	Type string `json:"type" doc:"the plugin that gives addresses: the name of its program; without it the section says nothing"`
}
