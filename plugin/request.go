package plugin

import (
	"github.com/cleat-cni/cleat/cni"
)

// Request is one call of a plugin, checked: names are valid, the configuration is
// parsed, what the verb requires is there.
type Request struct {
	Verb        cni.Verb
	ContainerID string
	NetNS       string // path; may be empty on DEL
	IfName      string
	Args        cni.Args
	Path        []string // CNI_PATH
	Conf        *cni.PluginConf
	// Prev is the decoded prevResult, nil without one.
	Prev *cni.Result
	// AllowHostNetNS is CNI_NETNS_OVERRIDE: NetNS may be the plugin's own namespace.
	AllowHostNetNS bool
}

// Env is the environment of a call, as the specification names it.
type Env struct {
	Command, ContainerID, NetNS, IfName, Args, Path, NetNSOverride string
}

// NewRequest reads and checks a call: first the environment (code 4, all missing names at
// once), then the configuration on standard input (6 not JSON, 7 wrong), then whether info's
// versions hold the configuration's (1).
func NewRequest(info Info, env Env, stdin []byte) (*Request, error) { panic("stub") }
