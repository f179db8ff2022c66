package planned_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// TestWarnings: what an ADD can't do is told once it is done, and not by a dry run; a DEL after a refused ADD is no warning,
// one of what was attached is.
func TestWarnings(t *testing.T) {
	noting := planned.Define(planned.Spec[struct{}]{
		Info: plugin.Info{Type: "noting"},
		Parse: func(req *plugin.Request) (struct{}, error) {
			if _, bad := req.Conf.Raw.Get("bad"); bad {
				return struct{}{}, cni.Errorf(cni.CodeInvalidConfig, "bad: as asked")
			}
			return struct{}{}, nil
		},
		Plan: func(struct{}, planned.Input, netstate.Facts) (planned.Plan, error) {
			return planned.Plan{Result: &cni.Result{}, Notes: []string{"half of it"}}, nil
		},
	})
	const good, bad = `{"cniVersion":"1.1.0","name":"n","type":"noting"}`, `{"cniVersion":"1.1.0","name":"n","type":"noting","bad":1}`
	kernel := kerneltest.NewMemory(kerneltest.Config{})
	ns := kernel.NewPod()
	for _, tc := range []struct {
		name string
		run  func(*planned.Engine) error
		want string // the message of the only warning; "" for none
	}{
		{"add", func(e *planned.Engine) error {
			_, err := e.Plugin(noting).Add(t.Context(), request(t, cni.VerbAdd, ns, good, nil))
			return err
		}, "half of it"},
		{"plan", func(e *planned.Engine) error {
			_, err := e.PlanList(t.Context(), []planned.Step{{Def: noting, Req: request(t, cni.VerbAdd, ns, good, nil)}})
			return err
		}, ""},
		{"del-after-refusal", func(e *planned.Engine) error {
			return e.Plugin(noting).Del(t.Context(), request(t, cni.VerbDel, ns, bad, nil))
		}, ""},
		{"del", func(e *planned.Engine) error {
			return e.Plugin(noting).Del(t.Context(), request(t, cni.VerbDel, ns, bad, &cni.Result{}))
		}, "removing by name and mark only"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
			if err := tc.run(planned.NewEngine(planned.Config{Kernel: kernel, Log: log})); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(out.String(), "level=WARN"); n > 1 || (n == 1) != (tc.want != "") || !strings.Contains(out.String(), tc.want) {
				t.Errorf("log %q, want %q", out.String(), tc.want)
			}
		})
	}
}
