package plugin

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
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
	Prev        *cni.Result // the decoded prevResult; nil without one
	// AllowHostNetNS is CNI_NETNS_OVERRIDE: NetNS may be the plugin's own namespace.
	AllowHostNetNS bool
}

// Owner is the attachment that the call is about, as the owner of kernel objects and leases.
func (r *Request) Owner() netstate.Owner {
	return netstate.Owner{Network: r.Conf.Name, ContainerID: r.ContainerID, IfName: r.IfName}
}

// Env is the environment of a call, as the specification names it (section 2,
// "Parameters"), and CNI_NETNS_OVERRIDE of the reference library.
type Env struct {
	Command, ContainerID, NetNS, IfName, Args, Path, NetNSOverride string
}

// EnvFrom reads the environment through get, which is os.Getenv in a program.
func EnvFrom(get func(string) string) Env {
	return Env{
		Command:       get("CNI_COMMAND"),
		ContainerID:   get("CNI_CONTAINERID"),
		NetNS:         get("CNI_NETNS"),
		IfName:        get("CNI_IFNAME"),
		Args:          get("CNI_ARGS"),
		Path:          get("CNI_PATH"),
		NetNSOverride: get("CNI_NETNS_OVERRIDE"),
	}
}

// environ is the request's part of a delegate's environment, with verb as the command.
func (r *Request) environ(verb cni.Verb) map[string]string {
	return map[string]string{
		"CNI_COMMAND":     string(verb),
		"CNI_CONTAINERID": r.ContainerID,
		"CNI_NETNS":       r.NetNS,
		"CNI_IFNAME":      r.IfName,
		"CNI_ARGS":        r.Args.String(),
		"CNI_PATH":        strings.Join(r.Path, string(filepath.ListSeparator)),
	}
}

// NewRequest reads and checks a call: first the environment (code 4, all missing names at
// once), then the configuration on standard input (6 for what is not JSON, 7 for what is
// wrong in it), then whether info's versions hold the configuration's (1). A prevResult that can't be
// read is an error, except on DEL, which goes on without it.
func NewRequest(info Info, env Env, stdin []byte) (*Request, error) {
	return newRequest(info, env, func() (*cni.PluginConf, error) { return cni.ParsePluginConf(stdin) }, nil)
}

// NewRequestOf is [NewRequest] of a configuration that is read already. prev is what its prevResult says, if that is known, else nil.
func NewRequestOf(info Info, env Env, conf *cni.Object, prev *cni.Result) (*Request, error) {
	return newRequest(info, env, func() (*cni.PluginConf, error) { return cni.PluginConfOf(conf) }, prev)
}

func newRequest(info Info, env Env, read func() (*cni.PluginConf, error), prev *cni.Result) (*Request, error) {
	req := &Request{
		Verb:           cni.Verb(env.Command),
		ContainerID:    env.ContainerID,
		NetNS:          env.NetNS,
		IfName:         env.IfName,
		Path:           splitPath(env.Path),
		AllowHostNetNS: env.NetNSOverride == "1" || strings.EqualFold(env.NetNSOverride, "true"),
	}
	if err := req.checkEnv(env); err != nil {
		return nil, err
	}
	conf, err := read()
	if err != nil {
		return nil, err
	}
	if conf.CNIVersion == "" {
		conf.CNIVersion = "0.1.0"
	}
	req.Conf = conf
	if err := cni.CheckNetworkName(conf.Name); err != nil {
		return nil, err
	}
	if err := checkVersion(info, req.Verb, conf.CNIVersion); err != nil {
		return nil, err
	}
	if req.Prev = prev; prev != nil {
		return req, nil
	}
	req.Prev, err = conf.PrevResult()
	if err != nil && req.Verb != cni.VerbDel {
		return nil, err
	}
	return req, nil
}

func splitPath(path string) []string {
	return slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return dir == "" })
}

// checkEnv checks what the verb requires (specification, section 2; DEL may lack CNI_NETNS).
func (r *Request) checkEnv(env Env) error {
	var required [][2]string
	switch r.Verb {
	case cni.VerbAdd, cni.VerbCheck:
		required = [][2]string{{"CNI_CONTAINERID", env.ContainerID}, {"CNI_NETNS", env.NetNS}, {"CNI_IFNAME", env.IfName}}
	case cni.VerbDel:
		required = [][2]string{{"CNI_CONTAINERID", env.ContainerID}, {"CNI_IFNAME", env.IfName}}
	case cni.VerbGC:
		required = [][2]string{{"CNI_PATH", env.Path}}
	case cni.VerbStatus:
	default:
		return cni.Errorf(cni.CodeInvalidEnvironment, "unknown CNI_COMMAND: %s", env.Command).
			WithHint("it is one of ADD, DEL, CHECK, GC, STATUS and VERSION")
	}
	var missing []string
	for _, kv := range required {
		if kv[1] == "" {
			missing = append(missing, kv[0])
		}
	}
	if len(missing) > 0 {
		return cni.Errorf(cni.CodeInvalidEnvironment, "required env variables [%s] missing", strings.Join(missing, ","))
	}
	if r.Verb == cni.VerbGC || r.Verb == cni.VerbStatus {
		return nil
	}
	// The specification wants the variables' names in the message of code 4.
	if err := cni.CheckContainerID(env.ContainerID); err != nil {
		return cni.Errorf(cni.CodeInvalidEnvironment, "CNI_CONTAINERID: %w", err)
	}
	if err := cni.CheckIfName(env.IfName); err != nil {
		return cni.Errorf(cni.CodeInvalidEnvironment, "CNI_IFNAME: %w", err)
	}
	var err error
	r.Args, err = cni.ParseArgs(env.Args)
	return err
}

func checkVersion(info Info, verb cni.Verb, version string) error {
	if _, err := cni.Compare(version, cni.Current); err != nil {
		return cni.Errorf(cni.CodeInvalidConfig, "cniVersion %q is no version: want the form %s", version, cni.Current)
	}
	if since := verb.Since(); !cni.AtLeast(version, since) {
		return cni.Errorf(cni.CodeIncompatibleVersion, "config version %q does not allow %s, which came with %s", version, verb, since)
	}
	if supported := info.versions(); !slices.Contains(supported, version) {
		e := cni.Errorf(cni.CodeIncompatibleVersion, "incompatible CNI versions")
		e.Details = "config is \"" + version + "\", plugin supports [\"" + strings.Join(supported, "\" \"") + "\"]"
		return e
	}
	return nil
}

func (i Info) versions() []string {
	if len(i.Versions) > 0 {
		return i.Versions
	}
	return cni.Versions()
}
