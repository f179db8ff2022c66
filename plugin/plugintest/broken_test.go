package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// noted is a plugin that isn't planned and does all that is demanded of one without effects. Each broken one embeds it.
type noted struct{}

func (noted) Add(_ context.Context, req *plugin.Request) (*cni.Result, error) {
	return req.Prev, nil
}
func (noted) Del(context.Context, *plugin.Request) error    { return nil }
func (noted) Check(context.Context, *plugin.Request) error  { return nil }
func (noted) GC(context.Context, *plugin.Request) error     { return nil }
func (noted) Status(context.Context, *plugin.Request) error { return nil }

type dropsPrev struct{ noted }

func (dropsPrev) Add(_ context.Context, req *plugin.Request) (*cni.Result, error) {
	return &cni.Result{IPs: []cni.IP{{Address: netip.MustParsePrefix("10.9.9.9/24")}}}, nil
}

type fails struct {
	noted
	verb cni.Verb
}

func (f fails) on(verb cni.Verb, req *plugin.Request) error {
	if verb == f.verb && req.ContainerID != forerunner {
		return errors.New("as asked")
	}
	return nil
}
func (f fails) Del(_ context.Context, req *plugin.Request) error {
	if req.Prev == nil {
		return f.on(cni.VerbDel, req)
	}
	return nil
}
func (f fails) Check(_ context.Context, req *plugin.Request) error { return f.on(cni.VerbCheck, req) }
func (f fails) GC(_ context.Context, req *plugin.Request) error    { return f.on(cni.VerbGC, req) }
func (f fails) Status(_ context.Context, req *plugin.Request) error {
	return f.on(cni.VerbStatus, req)
}

// leaves is planned: the link that it makes carries another's mark, or none, so that no verb takes it away.
func leaves(l netstate.Link) planned.Definition {
	return planned.Define(planned.Spec[struct{}]{
		Info:  plugin.Info{Type: "broken", Versions: []string{"1.1.0"}},
		Parse: func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		Plan: func(_ struct{}, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
			l := l
			if l.Name == "" {
				l.Name = "x" + in.ContainerID
			}
			return planned.Plan{State: netstate.State{Links: []netstate.Link{l}}}, nil
		},
	})
}

// findings runs all demands and returns what each that fails says.
func findings(t *testing.T, c Case) map[string]string {
	t.Helper()
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, version := range c.versions() {
		for _, d := range demands(t, c, version) {
			if err := d.try(t, c, version); err != nil {
				found[d.name] = err.Error()
			}
		}
	}
	return found
}

// TestFindsWhatIsBroken: each fault is found, by the demand that is about it.
func TestFindsWhatIsBroken(t *testing.T) {
	info := plugin.Info{Type: "broken", Versions: []string{"1.1.0"}}
	with := func(p plugin.Plugin) Case {
		return Case{Plugin: p, Info: info, Prev: Attached("10.1.0.2/24"), Config: `{"type":"broken"}`}
	}
	wants, refuses := with(noted{}), with(noted{})
	wants.Want = []string{"pod  route "}
	refuses.Refused = []string{`{"type":"broken","mtu":-1}`}
	for _, tc := range []struct {
		name string
		c    Case
		want map[string]string // demand: a part of what it says
	}{
		{"nothing", with(noted{}), nil},
		{"drops-prev-result", with(dropsPrev{}), map[string]string{"add": "lacks the interface eth0"}},
		{"del-needs-prev-result", with(fails{verb: cni.VerbDel}), map[string]string{
			"del-nothing": "as asked", "del-without-prev-result": "as asked",
		}},
		{"check", with(fails{verb: cni.VerbCheck}), map[string]string{"check": "CHECK right after ADD"}},
		{"gc", with(fails{verb: cni.VerbGC}), map[string]string{"gc": "as asked"}},
		{"status", with(fails{verb: cni.VerbStatus}), map[string]string{"status": "as asked"}},
		{"what-is-wanted-is-not-there", wants, map[string]string{"add": "no line that begins"}},
		{"bad-config-is-taken", refuses, map[string]string{"refused": "must be an error"}},
		{
			"del-leaves-a-link", Case{Planned: leaves(netstate.Link{Place: netstate.Host, Kind: "bridge", Shared: true}), Config: `{"type":"broken"}`},
			map[string]string{"del": "xtested", "undo": "xtested", "del-without-prev-result": "xtested", "del-netns-gone": "xtested", "gc": "xtested"},
		},
		{
			"adds-with-a-missing-device", Case{Planned: leaves(netstate.Link{Place: netstate.Pod, Name: "none"}), Config: `{"type":"broken"}`},
			map[string]string{"add": "none", "add-twice": "", "del": "", "del-without-prev-result": "", "del-netns-gone": "", "check": "", "gc": ""},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := findings(t, tc.c)
			for demand, text := range tc.want {
				if got, ok := found[demand]; !ok || !strings.Contains(got, text) {
					t.Errorf("demand %s says %q, want %q", demand, got, text)
				}
				delete(found, demand)
			}
			for demand, got := range found {
				t.Errorf("demand %s: %s", demand, got)
			}
		})
	}
}

func TestRefusesWrongCases(t *testing.T) {
	for name, c := range map[string]Case{
		"no-plugin":    {Config: `{"type":"x"}`},
		"both":         {Planned: leaves(netstate.Link{}), Plugin: noted{}, Config: `{"type":"broken"}`},
		"no-config":    {Planned: leaves(netstate.Link{})},
		"another-type": {Planned: leaves(netstate.Link{}), Config: `{"type":"other"}`},
	} {
		if err := c.complete(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestAnswer: what is no error object is not taken for one.
func TestAnswer(t *testing.T) {
	object, err := json.Marshal(&cni.Error{CNIVersion: "1.0.0", Code: 7, Msg: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		status int
		stdout string
		code   cni.Code
		ok     bool
	}{
		{"object", 1, string(object), 7, true},
		{"any-code", 1, string(object), 0, true},
		{"other-code", 1, string(object), 4, false},
		{"success", 0, string(object), 7, false},
		{"text", 1, "no such device", 0, false},
		{"no-version", 1, `{"code":7,"msg":"x"}`, 7, false},
		{"code-zero", 1, `{"cniVersion":"1.0.0","code":0,"msg":"x"}`, 0, false},
		{"no-message", 1, `{"cniVersion":"1.0.0","code":7,"msg":""}`, 7, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := (answer{status: tc.status, stdout: []byte(tc.stdout)}).refused("call", tc.code); (err == nil) != tc.ok {
				t.Error(err)
			}
		})
	}
}

// TestLeases holds the store in memory to what the engine expects of one.
func TestLeases(t *testing.T) {
	l := &leases{held: map[leaseKey]netstate.Owner{}}
	p := netstate.Pool{Network: "n", Dir: "/d", Sets: [][]netstate.Range{{{Subnet: netip.MustParsePrefix("10.1.0.0/30"),
		Start: netip.MustParseAddr("10.1.0.1"), End: netip.MustParseAddr("10.1.0.3"), Gateway: netip.MustParseAddr("10.1.0.1")}}}}
	a, b, c := netstate.Owner{ContainerID: "a"}, netstate.Owner{ContainerID: "b"}, netstate.Owner{ContainerID: "c"}
	if _, err := l.Reserve(t.Context(), p, a, true); err != nil || len(l.held) != 0 {
		t.Errorf("a dry run took %v, %v", l.held, err)
	}
	for _, o := range []netstate.Owner{a, b} {
		if _, err := l.Reserve(t.Context(), p, o, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Reserve(t.Context(), p, a, false); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("second ADD: %v", err)
	}
	if _, err := l.Reserve(t.Context(), p, c, false); !errors.Is(err, netstate.ErrExhausted) {
		t.Errorf("third of two: %v", err)
	}
	p.Want = []netip.Addr{netip.MustParseAddr("10.1.0.2")}
	if _, err := l.Reserve(t.Context(), p, c, false); !errors.Is(err, netstate.ErrInUse) {
		t.Errorf("another's: %v", err)
	}
	freed, err := l.Collect(t.Context(), p, []netstate.Owner{b}, false)
	if err != nil || len(freed) != 1 || freed[0].Owner != a {
		t.Errorf("collected %v, %v", freed, err)
	}
	if list, err := l.Reserve(t.Context(), p, c, false); err != nil || !slices.Equal([]netip.Addr{list[0].Addr}, p.Want) {
		t.Errorf("asked for %v: %v, %v", p.Want, list, err)
	}
}
