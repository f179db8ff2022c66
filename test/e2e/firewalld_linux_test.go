package e2e

import (
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cleat-cni/cleat/internal/firewalld/firewalldtest"
)

func cmdFirewalld(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "usage: firewalld start|stop|reload|list ZONE SOURCE…"
	if neg || len(args) == 0 {
		ts.Fatalf(usage)
	}
	h := of(ts)
	if h.firewalld == nil && args[0] == "start" {
		bus := firewalldtest.StartBus(h.t)
		ts.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus)
		h.firewalld = firewalldtest.Start(h.t, bus)
		return
	}
	switch {
	case h.firewalld == nil:
		ts.Fatalf("firewalld was not started")
	case args[0] == "start":
		h.firewalld.Restart()
	case args[0] == "stop":
		h.firewalld.Stop()
	case args[0] == "reload":
		h.firewalld.Reload()
	case args[0] == "list" && len(args) > 1:
		want := slices.Sorted(slices.Values(args[2:]))
		if got := h.firewalld.Sources(args[1]); !slices.Equal(got, want) {
			ts.Fatalf("zone %s has %q, want %q", args[1], got, want)
		}
	default:
		ts.Fatalf(usage)
	}
}
