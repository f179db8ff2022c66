package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// blocked is a plugin that waits in a verb.
type blocked struct {
	t    testing.TB
	fifo string
}

// block makes a plugin wait in a verb.
func (f *fakes) block(typ, verb string) blocked {
	f.Helper()
	b := blocked{f, filepath.Join(f.TempDir(), "wait")}
	for _, path := range []string{b.fifo, b.fifo + ".started"} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.answer(typ, map[string]behaviour{verb: {Until: b.fifo}})
	return b
}

// started returns when the plugin waits.
func (b blocked) started() {
	b.t.Helper()
	if _, err := os.ReadFile(b.fifo + ".started"); err != nil {
		b.t.Fatal(err)
	}
}

// release lets the plugin go on.
func (b blocked) release() {
	b.t.Helper()
	if err := os.WriteFile(b.fifo, nil, 0); err != nil {
		b.t.Fatal(err)
	}
}

// soon is a context for what is to wait in vain.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func testOneAtATime(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b")
	waiting, quick := ofTypes(r, cni.Current, "fake-a"), ofTypes(r, cni.Current, "fake-b")
	b := c.block("fake-a", "ADD")
	done := make(chan error, 1)
	go func() {
		_, err := c.AddNetworkList(r.Context(), waiting, attachment())
		done <- err
	}()
	b.started()
	second := attachment()
	second.IfName = "net1"
	// Another process's runtime, which shares nothing but the folders.
	other := runtimeOn(c.fakes, c.state)
	if _, err := other.AddNetworkList(soon(r), quick, second); cni.CodeOf(err) != cni.CodeTryAgain {
		r.Errorf("ADD of the container's second interface meanwhile: %v", err)
	}
	if err := other.DelNetworkList(soon(r), quick, attachment()); cni.CodeOf(err) != cni.CodeTryAgain {
		r.Errorf("DEL meanwhile: %v", err)
	}
	if err := other.CheckNetworkList(soon(r), quick, attachment()); cni.CodeOf(err) != cni.CodeTryAgain {
		r.Errorf("CHECK meanwhile: %v", err)
	}
	another := attachment()
	another.ContainerID = "spec-two"
	other.add(quick, another)
	b.release()
	if err := <-done; err != nil {
		r.Error(err)
	}
	c.ran("all of it", "ADD fake-a", "ADD fake-b")
}

func testGCExcludes(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b")
	waiting, quick := ofTypes(r, cni.Current, "fake-a"), ofTypes(r, cni.Current, "fake-b")
	for _, tc := range []struct {
		verb      string
		long      func(context.Context) error
		meanwhile map[string]func(context.Context) error
	}{
		{"ADD", func(ctx context.Context) error {
			_, err := c.AddNetworkList(ctx, waiting, attachment())
			return err
		}, map[string]func(context.Context) error{
			"GC": func(ctx context.Context) error { return c.GCNetworkList(ctx, quick, &libcni.GCArgs{}) },
		}},
		{"GC", func(ctx context.Context) error {
			return c.GCNetworkList(ctx, waiting, &libcni.GCArgs{})
		}, map[string]func(context.Context) error{
			"ADD": func(ctx context.Context) error {
				_, err := c.AddNetworkList(ctx, quick, attachment())
				return err
			},
			"DEL": func(ctx context.Context) error { return c.DelNetworkList(ctx, quick, attachment()) },
		}},
	} {
		b := c.block("fake-a", tc.verb)
		done := make(chan error, 1)
		go func() { done <- tc.long(r.Context()) }()
		b.started()
		for verb, f := range tc.meanwhile {
			if err := f(soon(r)); cni.CodeOf(err) != cni.CodeTryAgain {
				r.Errorf("%s during %s: %v", verb, tc.verb, err)
			}
		}
		b.release()
		if err := <-done; err != nil {
			r.Error(err)
		}
	}
}

func testGCRunsAll(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b", "fake-c")
	l := list(r, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a","capabilities":{"mac":true}},{"type":"fake-b"},{"type":"fake-c"}]}`)
	for _, typ := range []string{"fake-a", "fake-b"} {
		c.answer(typ, map[string]behaviour{"GC": failing(142, typ+" does not collect")})
	}
	err := c.GCNetworkList(r.Context(), l, &libcni.GCArgs{})
	for _, want := range []string{"fake-a does not collect", "fake-b does not collect"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			r.Errorf("the error does not tell that %s: %v", want, err)
		}
	}
	calls := c.calls()
	if diff := cmp.Diff([]string{"GC fake-a", "GC fake-b", "GC fake-c"}, each(calls, noted.String)); diff != "" {
		r.Errorf("order (-want +got)\n%s", diff)
	}
	for _, n := range calls {
		for _, name := range []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"} {
			if n.Env[name] != "" {
				r.Errorf("%s got %s=%s", n, name, n.Env[name])
			}
		}
		for _, key := range []string{"prevResult", "runtimeConfig", "capabilities"} {
			if value := n.has(r, key); value != nil {
				r.Errorf("%s got %s: %s", n, key, value)
			}
		}
	}
}

func testGCHasList(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := ofTypes(r, cni.Current, "fake-a")
	for _, valid := range [][]cni.Attachment{nil, {}, {{ContainerID: "c1", IfName: "eth0"}, {ContainerID: "c2", IfName: "net1"}}} {
		if err := c.GCNetworkList(r.Context(), l, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
			r.Fatal(err)
		}
		if valid == nil {
			valid = []cni.Attachment{}
		}
		want, err := json.Marshal(valid)
		if err != nil {
			r.Fatal(err)
		}
		n := c.only()
		for _, key := range []string{"cni.dev/valid-attachments", "cni.dev/attachments"} {
			sameJSON(r, key, want, n.has(r, key))
		}
	}
	if err := c.GCNetworkList(r.Context(), l, nil); err == nil {
		r.Error("GC without a list succeeded")
	}
	c.ran("GC without a list")
	if err := c.GCNetworkList(r.Context(), ofTypes(r, "1.0.0", "fake-a"), &libcni.GCArgs{}); err != nil {
		r.Error(err)
	}
	c.ran("GC below 1.1.0")
}

func testGCDeletesStale(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b")
	l := ofTypes(r, cni.Current, "fake-a", "fake-b")
	valid := attachment()
	valid.ContainerID = "spec-two"
	c.add(l, attachment())
	c.add(l, valid)
	c.calls()
	err := c.GCNetworkList(r.Context(), l, &libcni.GCArgs{ValidAttachments: []cni.Attachment{{ContainerID: valid.ContainerID, IfName: valid.IfName}}})
	if err != nil {
		r.Fatal(err)
	}
	calls := c.calls()
	if diff := cmp.Diff([]string{"DEL fake-b", "DEL fake-a", "GC fake-a", "GC fake-b"}, each(calls, noted.String)); diff != "" {
		r.Fatalf("GC ran (-want +got)\n%s", diff)
	}
	if calls[0].Env["CNI_CONTAINERID"] != "spec-one" || calls[0].has(r, "prevResult") == nil {
		r.Errorf("DEL of %s: %s", calls[0].Env["CNI_CONTAINERID"], calls[0].Stdin)
	}
	if exists(r, c.record()) {
		r.Error("the record of the stale one is still there")
	}
	if got, err := c.GetNetworkListCachedResult(l, valid); got == nil || err != nil {
		r.Errorf("the record of the valid one: %+v, %v", got, err)
	}
}
