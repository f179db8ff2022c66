package bridge

import (
	"fmt"
	"strconv"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/backend"
	"github.com/cleat-cni/cleat/internal/podip"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Config is the parsed configuration.
type Config struct {
	bridge         string
	layer3         bool // there is an ipam section
	isGateway      bool
	defaultGateway bool
	forceAddress   bool
	masquerade     bool
	backend        backend.Backend // of masquerading
	mtu            int             // 0 is inherited
	hairpin        bool
	promisc        bool
	vlan           int // 0 is none
	trunk          []netstate.VLAN
	keepVLAN1      bool
	spoofCheck     bool
	dad            bool
	down           bool
	isolated       bool
	mac            string // "" is chosen
	dns            cni.DNS
}

// netConf is the configuration as it is written.
type netConf struct {
	Bridge           *string `json:"bridge" schema:"default=cni0,format=ifname" doc:"name of the bridge; it is made if it is missing"`
	IsGateway        bool    `json:"isGateway" schema:"default=false" doc:"the bridge gets the gateway's address; the host forwards"`
	IsDefaultGateway bool    `json:"isDefaultGateway" schema:"default=false" doc:"isGateway, and the pod's default routes lead there"`
	ForceAddress     bool    `json:"forceAddress" schema:"default=false" doc:"an address that stands against the gateway's is replaced"`
	IPMasq           bool    `json:"ipMasq" schema:"default=false" doc:"packets leave the pod's subnet under the host's address"`
	IPMasqBackend    string  `json:"ipMasqBackend" schema:"enum=nftables|iptables" doc:"what masquerades; without it what the kernel has"`
	MTU              int     `json:"mtu" schema:"default=0,min=0,max=65535" doc:"MTU of the interfaces; 0 inherits the bridge's"`
	HairpinMode      bool    `json:"hairpinMode" schema:"default=false" doc:"the bridge sends frames back through the port they came from"`
	PromiscMode      bool    `json:"promiscMode" schema:"default=false" doc:"the bridge takes all frames; not together with hairpinMode"`

	VLAN                int         `json:"vlan" schema:"default=0,min=0,max=4094" doc:"the pod's VLAN; 0 is none"`
	VLANTrunk           []trunkConf `json:"vlanTrunk" doc:"VLANs that pass with their tag"`
	PreserveDefaultVLAN bool        `json:"preserveDefaultVlan" schema:"default=false" doc:"with vlan, the port stays in VLAN 1 too"`

	MacSpoofChk bool `json:"macspoofchk" schema:"default=false" doc:"frames from the pod with another source MAC than its own are dropped"`
	EnableDAD   bool `json:"enabledad" schema:"default=false" doc:"IPv6 addresses are probed for duplicates before they are used"`

	DisableContainerInterface bool `json:"disableContainerInterface" schema:"default=false" doc:"the interface stays down; not with ipam"`
	PortIsolation             bool `json:"portIsolation" schema:"default=false" doc:"the pod reaches no other isolated port"`
}

const (
	defaultBridge = "cni0"
	maxVLAN       = 4094
)

func parse(req *plugin.Request) (Config, error) {
	conf := netConf{}
	if err := planned.DecodeConfig(req.Conf, &conf); err != nil {
		return Config{}, err
	}
	c := Config{
		bridge:         defaultBridge,
		layer3:         req.Conf.IPAMType != "",
		isGateway:      conf.IsGateway || conf.IsDefaultGateway,
		defaultGateway: conf.IsDefaultGateway,
		forceAddress:   conf.ForceAddress,
		masquerade:     conf.IPMasq,
		mtu:            conf.MTU,
		hairpin:        conf.HairpinMode,
		promisc:        conf.PromiscMode,
		vlan:           conf.VLAN,
		keepVLAN1:      conf.PreserveDefaultVLAN,
		spoofCheck:     conf.MacSpoofChk,
		dad:            conf.EnableDAD,
		down:           conf.DisableContainerInterface,
		isolated:       conf.PortIsolation,
		dns:            req.Conf.DNS,
	}
	if conf.Bridge != nil && *conf.Bridge != "" {
		c.bridge = *conf.Bridge
	}
	if err := c.check(); err != nil {
		return Config{}, err
	}
	var err error
	if c.backend, err = backend.Parse("ipMasqBackend", conf.IPMasqBackend); err != nil {
		return Config{}, err
	}
	if c.trunk, err = parseTrunk(conf.VLANTrunk, c.vlan); err != nil {
		return Config{}, err
	}
	c.mac, err = wantedMAC(req)
	return c, err
}

// check looks at what one key allows and what two keys forbid each other.
func (c Config) check() error {
	if err := cni.CheckIfName(c.bridge); err != nil {
		return invalid("bridge: %w", err)
	}
	if err := podip.CheckMTU(c.mtu, "inherits the bridge's"); err != nil {
		return err
	}
	if c.vlan < 0 || c.vlan > maxVLAN {
		return invalid("vlan %d is not from 1 to %d", c.vlan, maxVLAN).WithHint("0 is no VLAN")
	}
	if c.hasVLANGateway() {
		if err := cni.CheckIfName(c.vlanGateway()); err != nil {
			return invalid("bridge %s with vlan %d: the gateway interface: %w", c.bridge, c.vlan, err)
		}
	}
	if c.hairpin && c.promisc {
		return invalid("hairpinMode and promiscMode exclude each other")
	}
	if c.down && c.layer3 {
		return invalid("disableContainerInterface and ipam exclude each other: an interface that is down has no use for addresses")
	}
	return nil
}

// wantedMAC is the MAC that the runtime asks for. The later of CNI_ARGS, args.cni and the mac
// capability wins.
func wantedMAC(req *plugin.Request) (string, error) {
	known := []string{"MAC"}
	if req.Conf.IPAMType != "" {
		// The IPAM plugin is called with the same arguments; these are its own.
		known = append(known, "IP", "GATEWAY")
	}
	if err := req.Args.Only(known...); err != nil {
		return "", err
	}
	mac, _ := req.Args.Get("MAC")
	source, code := "CNI_ARGS: MAC", cni.CodeInvalidEnvironment
	for _, from := range []struct {
		name string
		read func(string, any) (bool, error)
	}{{"args.cni.mac", req.Conf.Arg}, {"runtimeConfig.mac", req.Conf.RuntimeConfig}} {
		var later string
		if _, err := from.read("mac", &later); err != nil {
			return "", err
		}
		if later != "" {
			mac, source, code = later, from.name, cni.CodeInvalidConfig
		}
	}
	if mac == "" {
		return "", nil
	}
	parsed, err := netstate.ParseMAC(mac)
	if err != nil {
		return "", cni.Errorf(code, "%s: %w", source, err)
	}
	return parsed, nil
}

// hasVLANGateway reports whether the gateway's addresses are on an interface of the VLAN, since the bridge
// itself is not in it.
func (c Config) hasVLANGateway() bool { return c.layer3 && c.isGateway && c.vlan != 0 }

// vlanGateway is the name of that interface.
func (c Config) vlanGateway() string { return c.bridge + "." + strconv.Itoa(c.vlan) }

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

// trunkConf is an element of vlanTrunk: one id, a range, or both.
type trunkConf struct {
	ID    *int `json:"id" schema:"min=1,max=4094" doc:"one VLAN"`
	MinID *int `json:"minID" schema:"min=1,max=4094" doc:"the first of a range"`
	MaxID *int `json:"maxID" schema:"min=1,max=4094" doc:"the last of a range"`
}

// argsConf is what is read of args.cni.
type argsConf struct {
	MAC string `json:"mac" schema:"format=mac" doc:"MAC of the pod's interface"`
}

// parseTrunk reads the ids that pass the port with their tag.
func parseTrunk(list []trunkConf, native int) ([]netstate.VLAN, error) {
	taken := map[int]bool{native: native != 0}
	var trunk []netstate.VLAN
	for i, t := range list {
		ranges, err := t.ranges()
		if err != nil {
			return nil, invalid("vlanTrunk[%d]: %w", i, err)
		}
		for _, r := range ranges {
			for id := r.From; id <= r.To; id++ {
				if id == native {
					return nil, invalid("vlanTrunk[%d]: %d is the port's own vlan, which has no tag", i, id)
				}
				if taken[id] {
					return nil, invalid("vlanTrunk[%d]: %d is there already", i, id)
				}
				taken[id] = true
			}
			trunk = append(trunk, r)
		}
	}
	return trunk, nil
}

func (t trunkConf) ranges() ([]netstate.VLAN, error) {
	var all []netstate.VLAN
	switch {
	case t.MinID != nil && t.MaxID != nil:
		all = append(all, netstate.VLAN{From: *t.MinID, To: *t.MaxID})
	case t.MinID != nil || t.MaxID != nil:
		return nil, fmt.Errorf("minID and maxID are given together")
	}
	if t.ID != nil {
		all = append(all, netstate.VLAN{From: *t.ID, To: *t.ID})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("id, or minID and maxID, is missing")
	}
	for _, r := range all {
		for _, id := range []int{r.From, r.To} {
			if id < 1 || id > maxVLAN {
				return nil, fmt.Errorf("%d is not from 1 to %d", id, maxVLAN)
			}
		}
		if r.From > r.To {
			return nil, fmt.Errorf("minID %d is above maxID %d", r.From, r.To)
		}
	}
	return all, nil
}
