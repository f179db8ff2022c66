package planned_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// asked is an IPAM plugin of somebody else that notes what it is asked, and may refuse one verb.
type asked struct {
	calls  []string
	refuse cni.Verb
}

func (a *asked) note(verb cni.Verb, req *plugin.Request) error {
	a.calls = append(a.calls, string(verb))
	if req.Conf.IPAMType != "theirs" || req.ContainerID != "c1" && verb != cni.VerbGC && verb != cni.VerbStatus {
		return errors.New("not the whole call")
	}
	if verb == a.refuse {
		return cni.Errorf(77, "refused")
	}
	return nil
}

func (a *asked) Add(_ context.Context, req *plugin.Request) (*cni.Result, error) {
	return &cni.Result{IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.9/24"), Gateway: netip.MustParseAddr("10.1.0.1")}}}, a.note(cni.VerbAdd, req)
}
func (a *asked) Del(_ context.Context, req *plugin.Request) error { return a.note(cni.VerbDel, req) }
func (a *asked) Check(_ context.Context, req *plugin.Request) error {
	return a.note(cni.VerbCheck, req)
}
func (a *asked) GC(_ context.Context, req *plugin.Request) error { return a.note(cni.VerbGC, req) }
func (a *asked) Status(_ context.Context, req *plugin.Request) error {
	return a.note(cni.VerbStatus, req)
}

// TestEveryVerbIsDelegated: the IPAM plugin gets each verb once, with the whole call, and its error with its code is the caller's.
func TestEveryVerbIsDelegated(t *testing.T) {
	conf := strings.Replace(withPool, `"pool"`, `"theirs"`, 1)
	collect := strings.Replace(conf, `"mtu":1400`, `"cni.dev/valid-attachments":[]`, 1)
	for _, refuse := range []cni.Verb{"", cni.VerbAdd, cni.VerbCheck, cni.VerbDel, cni.VerbGC, cni.VerbStatus} {
		t.Run("refuses-"+string(refuse), func(t *testing.T) {
			w := newWorld(nil)
			ns := w.kernel.NewPod()
			before := w.kernel.Dump()
			a := &asked{refuse: refuse}
			w.finder["theirs"] = a
			p := w.engine.Plugin(wire())
			run := map[cni.Verb]error{}
			var res *cni.Result
			res, run[cni.VerbAdd] = p.Add(t.Context(), request(t, cni.VerbAdd, ns, conf, nil))
			want := []string{"ADD", "STATUS", "CHECK", "GC", "DEL"}
			if refuse == cni.VerbAdd {
				want = []string{"ADD", "DEL"} // the specification, section 4: a delegate whose ADD fails gets DEL
			} else {
				run[cni.VerbStatus] = p.Status(t.Context(), request(t, cni.VerbStatus, "", conf, nil))
				run[cni.VerbCheck] = p.Check(t.Context(), request(t, cni.VerbCheck, ns, conf, res))
				run[cni.VerbGC] = p.GC(t.Context(), request(t, cni.VerbGC, "", collect, nil))
				run[cni.VerbDel] = p.Del(t.Context(), request(t, cni.VerbDel, ns, conf, res))
			}
			code := cni.Code(77)
			if refuse == cni.VerbStatus {
				code = cni.CodeNotAvailable // whatever keeps ADD from working
			}
			for verb, err := range run {
				if verb == refuse && (cni.CodeOf(err) != code || cni.AsError(err).Step != "ipam" || cni.AsError(err).Verb != verb) {
					t.Errorf("%s: %+v, want the delegate's error", verb, cni.AsError(err))
				}
				if verb != refuse && err != nil {
					t.Errorf("%s: %v", verb, err)
				}
			}
			if diff := cmp.Diff(want, a.calls); diff != "" {
				t.Errorf("what the IPAM plugin was asked (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" {
				t.Errorf("left (-before +after)\n%s", diff)
			}
		})
	}
}

// TestWithoutIPAMNothingIsDelegated: a plugin that doesn't use IPAM leaves an ipam section alone.
func TestWithoutIPAMNothingIsDelegated(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	conf := `{"cniVersion":"1.1.0","name":"n","type":"bare","ipam":{"type":"theirs"},"cni.dev/valid-attachments":[]}`
	p := w.engine.Plugin(planned.Define(planned.Spec[struct{}]{
		Info:  plugin.Info{Type: "bare"},
		Parse: func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		Plan: func(struct{}, planned.Input, netstate.Facts) (planned.Plan, error) {
			return planned.Plan{}, nil
		},
	}))
	res, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, conf, nil)) // theirs is not to be found
	if err != nil {
		t.Fatal(err)
	}
	for verb, err := range map[cni.Verb]error{
		cni.VerbCheck:  p.Check(t.Context(), request(t, cni.VerbCheck, ns, conf, res)),
		cni.VerbGC:     p.GC(t.Context(), request(t, cni.VerbGC, "", conf, nil)),
		cni.VerbStatus: p.Status(t.Context(), request(t, cni.VerbStatus, "", conf, nil)),
		cni.VerbDel:    p.Del(t.Context(), request(t, cni.VerbDel, ns, conf, res)),
	} {
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestPanicGivesAddressesBack: a plan that panics keeps no address.
func TestPanicGivesAddressesBack(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	p := w.engine.Plugin(planned.Define(planned.Spec[struct{}]{
		Info:  plugin.Info{Type: "wire"},
		Parse: func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		IPAM:  func(struct{}) planned.IPAMUse { return planned.RequiredIPAM },
		Plan: func(_ struct{}, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
			panic("address " + in.IPAM.IPs[0].Address.String())
		},
	}))
	defer func() {
		if r := recover(); r != "address 10.1.0.2/24" {
			t.Errorf("the panic became %v", r)
		}
		if len(w.leases.held) != 0 {
			t.Errorf("leases left: %v", w.leases.held)
		}
	}()
	_, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil))
	t.Errorf("no panic, error %v", err)
}

// TestNothingOfThePodIsAskedWithoutOne: a plugin that asks about the pod's links is planned, and has a STATUS, where no pod is named.
func TestNothingOfThePodIsAskedWithoutOne(t *testing.T) {
	w := newWorld(nil)
	asks := planned.Define(planned.Spec[struct{}]{
		Info:  plugin.Info{Type: "asks"},
		Parse: func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		Ask: func(struct{}, planned.Input) netstate.Query {
			return netstate.Query{Links: []netstate.Ref{{Place: netstate.Pod, Name: "lo"}, {Place: netstate.Host, Name: "lo"}}}
		},
		Plan: func(_ struct{}, _ planned.Input, seen netstate.Facts) (planned.Plan, error) {
			if _, ok := seen.Link(netstate.Host, "lo"); !ok {
				return planned.Plan{}, errors.New("the host was not looked at")
			}
			return planned.Plan{State: netstate.State{Links: []netstate.Link{{Place: netstate.Pod, Name: "lo"}}}}, nil
		},
	})
	conf := `{"cniVersion":"1.1.0","name":"n","type":"asks"}`
	if err := w.engine.Plugin(asks).Status(t.Context(), request(t, cni.VerbStatus, "", conf, nil)); err != nil {
		t.Errorf("STATUS: %v", err)
	}
	req := request(t, cni.VerbAdd, "/x", conf, nil)
	req.NetNS = ""
	if _, err := w.engine.PlanList(t.Context(), []planned.Step{{Def: asks, Req: req}}); err != nil {
		t.Errorf("plan: %v", err)
	}
}
