package tuning

import (
	"cmp"
	"encoding/json"
	"math"
	"path/filepath"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/podip"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Config is the parsed configuration. Zero values change nothing.
type Config struct {
	mac      string
	mtu      int
	promisc  bool
	allMulti netstate.Switch
	txQLen   int // as in netstate.Link
	sysctls  []sysctl
	dataDir  string // where it is kept how things were
}

// tunesLink reports whether anything of the interface changes.
func (c Config) tunesLink() bool {
	return c.mac != "" || c.mtu != 0 || c.promisc || c.allMulti != "" || c.txQLen != 0
}

// defaultDataDir is the reference plugin's.
const defaultDataDir = "/run/cni/tuning"

// wishes are what both the configuration and args.cni may say.
type wishes struct {
	Sysctl   json.RawMessage `json:"sysctl" schema:"type=object" doc:"names of values below net, and the values as strings; IFNAME is the interface"`
	MAC      *string         `json:"mac" schema:"format=mac" doc:"MAC of the pod's interface"`
	Promisc  *bool           `json:"promisc" doc:"the interface takes all frames"`
	MTU      *int            `json:"mtu" schema:"min=0,max=65535" doc:"MTU of the interface; 0 leaves it as it is"`
	AllMulti *bool           `json:"allmulti" doc:"the interface takes the frames of all groups"`
	TxQLen   *int            `json:"txQLen" schema:"min=0,max=2147483647" doc:"packets that wait to be sent"`
}

// netConf is the configuration as it is written.
type netConf struct {
	wishes
	DataDir string `json:"dataDir" schema:"default=/run/cni/tuning" doc:"absolute path of the folder that keeps how things were"`
}

func parse(req *plugin.Request) (Config, error) {
	var conf netConf
	if err := planned.DecodeConfig(req.Conf, &conf); err != nil {
		return Config{}, err
	}
	c := Config{dataDir: cmp.Or(conf.DataDir, defaultDataDir)}
	if !filepath.IsAbs(c.dataDir) {
		return Config{}, invalid("dataDir %q is no absolute path", c.dataDir)
	}
	if req.Verb == cni.VerbDel || req.Verb == cni.VerbGC {
		return c, nil // what was changed is told by what was kept
	}
	if err := c.add(conf.wishes, "", req.IfName); err != nil {
		return Config{}, err
	}
	if err := c.addMAC(req); err != nil {
		return Config{}, err
	}
	var later wishes
	for key, into := range map[string]any{"sysctl": &later.Sysctl, "mac": &later.MAC, "promisc": &later.Promisc, "mtu": &later.MTU,
		"allmulti": &later.AllMulti, "txQLen": &later.TxQLen} {
		if _, err := req.Conf.Arg(key, into); err != nil {
			return Config{}, err
		}
	}
	if err := c.add(later, "args.cni.", req.IfName); err != nil {
		return Config{}, err
	}
	return c, nil
}

// addMAC reads the MAC that the runtime asks for; the capability goes before CNI_ARGS.
func (c *Config) addMAC(req *plugin.Request) error {
	if err := req.Args.Only("MAC", "IP", "GATEWAY"); err != nil {
		return err
	}
	source, code := "CNI_ARGS: MAC", cni.CodeInvalidEnvironment
	mac, _ := req.Args.Get("MAC")
	var asked string
	if _, err := req.Conf.RuntimeConfig("mac", &asked); err != nil {
		return err
	}
	if asked != "" {
		mac, source, code = asked, "runtimeConfig.mac", cni.CodeInvalidConfig
	}
	if mac == "" {
		return nil
	}
	parsed, err := netstate.ParseMAC(mac)
	if err != nil {
		return cni.Errorf(code, "%s: %w", source, err)
	}
	c.mac = parsed
	return nil
}

// add puts wishes over those there are; prefix says in errors where their keys stand.
func (c *Config) add(w wishes, prefix, ifName string) error {
	if w.MAC != nil && *w.MAC != "" {
		mac, err := netstate.ParseMAC(*w.MAC)
		if err != nil {
			return invalid("%smac: %w", prefix, err)
		}
		c.mac = mac
	}
	if w.MTU != nil {
		if err := podip.CheckMTU(*w.MTU, "leaves it as it is"); err != nil {
			return err
		}
		c.mtu = *w.MTU
	}
	if w.Promisc != nil {
		c.promisc = *w.Promisc
	}
	if w.AllMulti != nil {
		c.allMulti = netstate.SwitchOf(*w.AllMulti)
	}
	if w.TxQLen != nil {
		n := *w.TxQLen
		if n < 0 || n > math.MaxInt32 {
			return invalid("%stxQLen %d is not from 0 to %d", prefix, n, math.MaxInt32)
		}
		c.txQLen = cmp.Or(n, netstate.NoQueue)
	}
	if w.Sysctl == nil {
		return nil
	}
	list, err := parseSysctls(w.Sysctl, prefix+"sysctl", ifName)
	if err != nil {
		return err
	}
	c.sysctls = override(c.sysctls, list)
	return nil
}
