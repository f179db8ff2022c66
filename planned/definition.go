package planned

import (
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// Definition is a [Spec] or an [IPAMSpec], whatever the type of its configuration. The
// zero Definition describes no plugin.
type Definition struct {
	Info    plugin.Info
	Profile Profile

	chained bool
	// trialRuntime is a Spec's TrialRuntime.
	trialRuntime string
	takesIPAM    bool
	keeps        bool // it has originals to keep

	parse func(*plugin.Request) (bound, error)      // of a Spec
	ipam  func(*plugin.Request) (Allocation, error) // of an IPAMSpec
	store func(*plugin.Request) netstate.Pool
}

// bound is a spec with its configuration parsed.
type bound struct {
	use  IPAMUse
	dir  string // where originals are kept; "" if none are
	ask  func(Input) netstate.Query
	plan func(Input, netstate.Facts) (Plan, error)
}

// Define makes a definition of a spec.
func Define[C any](s Spec[C]) Definition {
	parse := func(req *plugin.Request) (bound, error) {
		c, err := s.Parse(req)
		if err != nil {
			return bound{}, err
		}
		b := bound{
			ask:  func(Input) netstate.Query { return netstate.Query{} },
			plan: func(in Input, seen netstate.Facts) (Plan, error) { return s.Plan(c, in, seen) },
		}
		if s.Ask != nil {
			b.ask = func(in Input) netstate.Query { return s.Ask(c, in) }
		}
		if s.Originals != nil {
			b.dir = s.Originals(c)
		}
		if s.IPAM != nil {
			b.use = s.IPAM(c)
		}
		return b, nil
	}
	return Definition{Info: s.Info, Profile: s.Profile, chained: s.Chained, trialRuntime: s.TrialRuntime, takesIPAM: s.IPAM != nil,
		keeps: s.Originals != nil, parse: parse}
}

// DefineIPAM makes a definition of an IPAM spec.
func DefineIPAM[C any](s IPAMSpec[C]) Definition {
	allocate := func(req *plugin.Request) (Allocation, error) {
		c, err := s.Parse(req)
		if err != nil {
			return Allocation{}, err
		}
		return s.Allocation(c, req)
	}
	return Definition{Info: s.Info, Profile: s.Profile, ipam: allocate, store: s.Store}
}

// IsIPAM reports whether the definition is an IPAM plugin's.
func (d Definition) IsIPAM() bool { return d.ipam != nil }

// IsChained reports whether the plugin only works on the result of one before it.
func (d Definition) IsChained() bool { return d.chained }

// TakesIPAM reports whether the plugin may have an ipam section.
func (d Definition) TakesIPAM() bool { return d.takesIPAM }

// OnDemand reports whether the plugin does nothing but what a runtime asks for.
func (d Definition) OnDemand() bool { return d.trialRuntime != "" }

// Plan is the pure part of an ADD, for tests and tools: parse, ask, plan. seen answers what the
// plugin asks.
func (d Definition) Plan(in Input, seen func(netstate.Query) netstate.Facts) (Plan, error) {
	b, err := d.parse(in.Request)
	if err != nil {
		return Plan{}, err
	}
	return b.plan(in, seen(b.ask(in)))
}

// Allocation is the pure part of an IPAM plugin's ADD.
func (d Definition) Allocation(req *plugin.Request) (Allocation, error) { return d.ipam(req) }
