package planned_test

import (
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

// TestStatusTells: whatever keeps ADD from working is told, with its cause and what to do.
func TestStatusTells(t *testing.T) {
	lacks := func(object string) func(string) error {
		return func(step string) error {
			if strings.HasPrefix(step, "supports "+object) {
				return netstate.ErrUnsupported
			}
			return nil
		}
	}
	other := netstate.Owner{Network: "n", ContainerID: "other", IfName: "eth0"}
	const tagConf = `{"cniVersion":"1.1.0","name":"n","type":"tag"}`
	for _, tc := range []struct {
		name  string
		def   planned.Definition
		conf  string
		fault func(string) error
		ready func(w *world)
		code  cni.Code // 0 is ready
		text  string
		hint  string
	}{
		{name: "ready", def: wire(), conf: withPool},
		{name: "chained", def: tag(), conf: tagConf},
		{name: "ipam", def: pool(), conf: withPool},
		{name: "configuration", def: wire(), conf: `{"cniVersion":"1.1.0","name":"n","type":"wire","mtu":-1}`,
			code: cni.CodeInvalidConfig, text: "wire: validate: mtu: -1 is negative"},
		{name: "no-ipam-plugin", def: wire(), conf: `{"cniVersion":"1.1.0","name":"n","type":"wire","ipam":{"type":"poll"}}`,
			code: cni.CodeInvalidConfig, text: "poll"},
		{name: "used-up", def: wire(), conf: withPool, ready: func(w *world) {
			w.leases.held[netip.MustParseAddr("10.1.0.2")] = other
			w.leases.held[netip.MustParseAddr("10.1.0.3")] = other
		}, code: cni.CodeNotAvailable, text: "pool: status: ", hint: "cleat gc"},
		{name: "no-veth", def: wire(), conf: withPool, fault: lacks("host link"), code: cni.CodeNotAvailable,
			text: "this machine can't make it: host link veth", hint: "modprobe veth"},
		{name: "no-nftables", def: tag(), conf: tagConf, fault: lacks("host nft"), code: cni.CodeNotAvailable,
			text: "this machine can't make it: host nft", hint: "modprobe nf_tables"},
		{name: "kernel-refuses", def: wire(), conf: withPool, fault: func(step string) error {
			if step == "observe" {
				return errors.New("as asked")
			}
			return nil
		}, code: cni.CodeNotAvailable, text: "as asked"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(tc.fault)
			if tc.ready != nil {
				tc.ready(w)
			}
			before, held := w.kernel.Dump(), len(w.leases.held)
			p := w.engine.Plugin(tc.def)
			env := plugin.Env{Command: string(cni.VerbStatus), Path: "/p"}
			req, err := plugin.NewRequest(tc.def.Info, env, []byte(tc.conf))
			if err != nil {
				t.Fatal(err)
			}
			err = p.Status(t.Context(), req)
			if cni.CodeOf(err) != tc.code {
				t.Fatalf("error %v with code %d, want %d", err, cni.CodeOf(err), tc.code)
			}
			if err != nil && (!strings.Contains(err.Error(), tc.text) || !strings.Contains(cni.AsError(err).Hint, tc.hint)) {
				t.Errorf("error %q with hint %q, want %q and %q", err, cni.AsError(err).Hint, tc.text, tc.hint)
			}
			if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" || len(w.leases.held) != held {
				t.Errorf("something was made (-before +after)\n%s", diff)
			}
		})
	}
}

// TestStatusRuntime: a plugin that only does what a runtime asks for is tried with what one may ask.
func TestStatusRuntime(t *testing.T) {
	var asked []string
	def := planned.Define(planned.Spec[[]string]{
		Info: plugin.Info{Type: "asked"},
		Parse: func(req *plugin.Request) (names []string, err error) {
			_, err = req.Conf.RuntimeConfig("names", &names)
			return names, err
		},
		Plan: func(names []string, _ planned.Input, _ netstate.Facts) (planned.Plan, error) {
			asked = names
			return planned.Plan{}, nil
		},
		TrialRuntime: `{"names": ["a"]}`,
	})
	w := newWorld(nil)
	req := request(t, cni.VerbStatus, "", `{"cniVersion":"1.1.0","name":"n","type":"asked"}`, nil)
	if err := w.engine.Plugin(def).Status(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, asked); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
