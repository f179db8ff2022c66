package planned

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// ExplainList is PlanList and also says why: Plan.Why names, for each object by its line, the keys of the
// configuration that it depends on. Plans are pure, so a key is asked by planning again without it: what is then missing or
// different is there because of it. An object that no single key decides stands in Why with none: it is what the plugin
// does by itself. If there is a pod, Plan.Now says of each object whether it is there already.
func (e *Engine) ExplainList(ctx context.Context, steps []Step) ([]Plan, error) {
	run, err := e.begin(steps)
	if err != nil {
		return nil, err
	}
	run.peek, run.explain = true, true
	return run.look(ctx)
}

// why plans a step once for each key of its configuration, without the key.
func (s Step) why(in Input, seen netstate.Facts, p Plan) map[string][]string {
	all := map[string][]string{}
	for _, o := range p.State.Objects() {
		all[o.String()] = nil
	}
	for _, key := range keysOf(in) {
		without, ok := s.without(in, key, seen)
		if !ok {
			continue // the plugin can't do without it, so it explains nothing in particular
		}
		have := map[string]bool{}
		for _, o := range without.State.Objects() {
			have[o.String()] = true
		}
		for line := range all {
			if !have[line] {
				all[line] = append(all[line], key)
			}
		}
	}
	for _, l := range p.State.Leases {
		all[l.String()] = []string{"ipam"}
	}
	return all
}

// keysOf are the keys that a plan may depend on: the plugin's own, and those inside runtimeConfig and args.cni.
func keysOf(in Input) []string {
	var keys []string
	for _, m := range in.Conf.Raw.Members() {
		switch m.Key {
		case "cniVersion", "name", "type", "capabilities", "prevResult":
		case "runtimeConfig":
			keys = append(keys, inside(in.Conf.Raw, "runtimeConfig")...)
		case "args":
			keys = append(keys, "args")
		default:
			keys = append(keys, m.Key)
		}
	}
	return keys
}

// inside are the keys of an object in the configuration, with the object's own in front.
func inside(conf *cni.Object, key string) []string {
	raw, _ := conf.Get(key)
	o, err := cni.ParseObject(raw)
	if err != nil {
		return []string{key}
	}
	var keys []string
	for _, m := range o.Members() {
		keys = append(keys, key+"."+m.Key)
	}
	return keys
}

// without plans the step as if key were not there.
func (s Step) without(in Input, key string, seen netstate.Facts) (Plan, bool) {
	raw := in.Conf.Raw.Clone()
	outer, inner, nested := strings.Cut(key, ".")
	if nested {
		value, _ := raw.Get(outer)
		o, err := cni.ParseObject(value)
		if err != nil {
			return Plan{}, false
		}
		o.Delete(inner)
		raw.Set(outer, json.RawMessage(o.Bytes()))
	} else {
		raw.Delete(key)
	}
	conf, err := cni.ParsePluginConf(raw.Bytes())
	if err != nil {
		return Plan{}, false
	}
	req := *in.Request
	conf.CNIVersion = in.Conf.CNIVersion
	req.Conf = conf
	b, err := (Step{Def: s.Def, Req: &req}).parse()
	if err != nil {
		return Plan{}, false
	}
	other := Input{Request: &req, IPAM: in.IPAM}
	if b.use == NoIPAM {
		other.IPAM = nil
	}
	p, err := b.plan(other, seen)
	return p, err == nil
}

// Keys returns the keys that an object of the plan depends on, in order, if the plan was explained.
func (p Plan) Keys(o netstate.Object) []string {
	keys := slices.Clone(p.Why[o.String()])
	slices.Sort(keys)
	return keys
}
