package lint

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// The attachment that is rehearsed.
const (
	rehearsedID = "cleat-lint"
	rehearsedIf = "eth0"
)

// request is a step's configuration as its plugin reads it, without the values in skip, or what is inside them, and without
// those that are erroneous.
func (s *step) request(skip map[*cni.Tree]bool) (*plugin.Request, error) {
	conf := new(cni.Object)
	version := s.net.version
	if !cni.Supported(version) {
		version = cni.Current // L202
	}
	conf.Set("cniVersion", quote(version))
	conf.Set("name", quote(cleanName(s.net.name)))
	leave := func(t *cni.Tree) bool { return skip[t] || s.doc.spoilt[t] }
	for _, m := range s.node.Children {
		_, twice := conf.Get(m.Key)
		if twice || reserved(m.Key) || m.Key == "cniVersions" || leave(m) {
			continue
		}
		conf.Set(m.Key, without(m, leave))
	}
	env := plugin.Env{Command: string(cni.VerbAdd), ContainerID: rehearsedID, NetNS: "/run/netns/" + rehearsedID, IfName: rehearsedIf}
	return plugin.NewRequest(s.def.Info, env, conf.Bytes())
}

// cleanName is a name that a network can have: a wrong one is not the plugin's affair.
func cleanName(name string) string {
	if cni.CheckNetworkName(name) != nil {
		return "network"
	}
	return name
}

// reserved reports whether a key is the runtime's, and not the configuration's.
func reserved(key string) bool {
	return key == "runtimeConfig" || key == "prevResult" || strings.HasPrefix(key, "cni.dev/")
}

// without is a value's JSON without what is to be left out of it, and with the first of each key.
func without(t *cni.Tree, leave func(*cni.Tree) bool) json.RawMessage {
	switch {
	case t.IsObject():
		o := new(cni.Object)
		for _, m := range t.Children {
			if _, twice := o.Get(m.Key); !twice && !leave(m) {
				o.Set(m.Key, without(m, leave))
			}
		}
		return o.Bytes()
	case t.IsList():
		list := []json.RawMessage{}
		for _, item := range t.Children {
			if !leave(item) {
				list = append(list, without(item, leave))
			}
		}
		raw, _ := json.Marshal(list) // it is JSON
		return raw
	}
	return t.Raw
}

func quote(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a string can always be encoded
	return raw
}

// rehearse plans the step in several worlds: on a host that has nothing, and on hosts that have whatever the plugin asks for, of one kind or
// another. What one lets pass is no fault of the configuration.
func (s *step) rehearse(skip map[*cni.Tree]bool) (planned.Rehearsal, error) {
	req, err := s.request(skip)
	if err != nil {
		return planned.Rehearsal{}, err
	}
	ipam := s.ipam.def
	if !ipam.IsIPAM() {
		ipam = planned.Definition{}
	}
	bare, err := s.def.Rehearse(req, ipam, func(netstate.Query) netstate.Facts { return netstate.Facts{} })
	if err == nil || cni.AsError(err).Step != "plan" {
		return bare, err
	}
	refusals := []error{err}
	for _, kind := range []string{"", "bridge", "veth"} {
		full, err := s.def.Rehearse(req, ipam, furnished(kind))
		if err == nil {
			return full, nil
		}
		refusals = append(refusals, err)
	}
	return planned.Rehearsal{}, verdict(refusals)
}

// verdict tells a fault of the configuration from one that is the host's, by what a host without anything and those with everything
// were told: the former is what both say, or all of the latter.
func verdict(refusals []error) error {
	bare, full := refusals[0], refusals[1:]
	said := func(err error) string { return cni.AsError(err).Msg }
	agree := 0
	for _, err := range full {
		switch said(err) {
		case said(bare):
			return bare
		case said(full[0]):
			agree++
		}
	}
	if agree == len(full) {
		return full[0]
	}
	return errDepends
}

// errDepends: whether a plugin refuses a configuration depends on the host.
var errDepends = errors.New("it depends on the host")

// furnished is a host with an uplink and every interface that is asked for, of a kind.
func furnished(kind string) func(netstate.Query) netstate.Facts {
	return func(q netstate.Query) netstate.Facts {
		var f netstate.Facts
		for _, ref := range q.Links {
			f.Links = append(f.Links, netstate.Link{Place: ref.Place, Name: ref.Name, Kind: kind, MAC: "02:00:00:00:00:01", MTU: 65535})
		}
		f.Uplink = netstate.Link{Place: netstate.Host, Name: "eth0", MAC: "02:00:00:00:00:02", MTU: 1500}
		return f
	}
}
