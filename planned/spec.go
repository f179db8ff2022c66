package planned

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// Spec describes a plugin that says what should exist. C is its configuration, parsed.
type Spec[C any] struct {
	Info plugin.Info

	// Parse reads the configuration, the arguments and the runtime's capabilities of
	// a request, for every verb. Required. It is pure. Its errors carry code 7 and name the key.
	Parse func(req *plugin.Request) (C, error)

	// Ask says what Plan needs to know about the kernel. Default: nothing. It is pure.
	Ask func(c C, in Input) netstate.Query

	// Plan says what should exist for the attachment. Required. It is pure, and does not differ
	// between the verbs, but on DEL in may lack IPAM (no prevResult) and seen is empty, but for what
	// netstate.Query.NFTables or AtDel ask, and then it names what it can: names are functions of the owner.
	Plan func(c C, in Input, seen netstate.Facts) (Plan, error)

	// IPAM says whether the plugin takes addresses from an IPAM plugin. Default NoIPAM.
	IPAM func(c C) IPAMUse

	// Originals says in which folder [Plan.Originals] are kept until DEL. Default: nothing is kept.
	Originals func(c C) string

	// Chained: the plugin only works on the result of one before it, and an ADD or CHECK without prevResult is an error.
	Chained bool

	// TrialRuntime is a runtimeConfig, as JSON, that STATUS plans with: for a plugin that does nothing but what a runtime
	// asks for. Default: none.
	TrialRuntime string

	// Profile says what the plugin reads, to tools that judge a configuration before anything runs. Default: they say nothing of its keys.
	Profile Profile
}

// Profile is what tools have to know of a plugin that they do not run: cleat lint judges configurations by it, and cleat schema prints it.
type Profile struct {
	// Conf is a value of the struct that the configuration is decoded into, an IPAM plugin's ipam section. Its tags are those of
	// package internal/schema: json, doc and schema. Nil says nothing of the keys.
	Conf any
	// Args is a value of a struct with the keys that are read of args.cni. Default: none.
	Args any
	// Capabilities are those that are read of runtimeConfig.
	Capabilities []string
	// Makes is the kind of interface that the plugin makes in the pod, such as veth or macvlan; "" if it makes none.
	Makes string
	// Behind are the kinds of interface, made by a plugin before, that this one does its work on; on another it does nothing, or fails.
	// Default: any for a chained plugin, and none for one that makes an interface.
	Behind []string
}

// IPAMUse says how a plugin uses its configuration's ipam section.
type IPAMUse int

// The uses of ipam.
const (
	NoIPAM       IPAMUse = iota // an ipam section is not looked at
	OptionalIPAM                // used if it is there
	RequiredIPAM                // an error if it is missing
)

// Input is what a plan is made from, besides the plugin's configuration.
type Input struct {
	*plugin.Request
	// IPAM is what the IPAM plugin gave (ADD), would give (plan) or gave at ADD (CHECK and DEL: the addresses,
	// routes and DNS of prevResult that belong to this interface); nil if there is no ipam section, or on DEL without prevResult.
	IPAM *cni.Result
}

// Plan is what a plugin wants.
type Plan struct {
	State netstate.State
	// Result is what this plugin adds to the result of the one before: interfaces are appended (IPs' indexes
	// count from 0 within this Result and are moved), IPs and routes too, DNS replaces if it is set. Nil adds nothing: prevResult passes through.
	Result *cni.Result
	// Interface is what this plugin changes of the request's interface in prevResult: its MAC and MTU, if they are set.
	Interface cni.Interface
	// Sweep: on DEL the owner may have elements in the tables of State that State does not name. They are looked for by the owner's mark.
	Sweep bool
	// Originals is what State changes of things that may outlive the attachment, as it was seen before. DEL puts it
	// back, from where [Spec.Originals] says; it holds sysctls, and links of kind "".
	Originals netstate.State
	// Notes says what the plan can't tell, for people.
	Notes []string
	// Why is filled by [Engine.ExplainList]: for each object, by its line, the keys of the configuration that it
	// depends on.
	Why map[string][]string
	// Now is filled by [Engine.ExplainList] if there is a pod: how each object, by its line, stands to what is there.
	Now map[string]Standing
}

// IPAMSpec describes a plugin that gives addresses.
type IPAMSpec[C any] struct {
	Info  plugin.Info
	Parse func(req *plugin.Request) (C, error)
	// Allocation says where the addresses come from and what goes with them. It is pure.
	Allocation func(c C, req *plugin.Request) (Allocation, error)
	// Store says where leases lie, read as leniently as can be: DEL and GC need no more, and
	// go on with it when Parse or Allocation refuses the configuration. Nil for a plugin without a store.
	Store func(req *plugin.Request) netstate.Pool
	// Profile is as that of [Spec].
	Profile Profile
}

// Allocation is what an IPAM plugin gives: addresses chosen from a pool, fixed ones, and
// what goes with them.
type Allocation struct {
	Pool   netstate.Pool // no Sets: nothing is chosen and no store is used
	Fixed  []cni.IP
	Routes []cni.Route
	DNS    cni.DNS
	// ResolvConf is the path of a resolv.conf whose content is the DNS; "" for none.
	ResolvConf string
}
