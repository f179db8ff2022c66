package firewalldtest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cleat-cni/cleat/internal/dbus"
)

const (
	service       = "org.fedoraproject.FirewallD1"
	zoneInterface = service + ".zone"
)

// Firewalld is one that runs or not, on a bus. It has the zones public, trusted and internal.
type Firewalld struct {
	t   testing.TB
	bus string

	mu        sync.Mutex
	before    func(method string, args []string)
	permanent map[string][]string // sources by zone
	runtime   map[string][]string
	calls     []string
	conn      *dbus.Conn
	stop      func() // nil if it does not run
}

// Start starts one on a bus; it ends with the test.
func Start(t testing.TB, bus string) *Firewalld {
	t.Helper()
	f := &Firewalld{t: t, bus: bus, permanent: map[string][]string{"public": nil, "trusted": nil, "internal": nil}}
	f.Restart()
	t.Cleanup(f.Stop)
	return f
}

// Restart starts it, after an end if it runs. As of the real one, what runs is then what its permanent configuration says.
func (f *Firewalld) Restart() {
	f.t.Helper()
	f.Stop()
	f.Reload()
	conn, err := dbus.Dial(f.t.Context(), f.bus)
	if err != nil {
		f.t.Fatal(err)
	}
	const doNotQueue, primaryOwner = 4, 1
	body, err := conn.Call(f.t.Context(), dbus.BusCall("RequestName", service, uint32(doNotQueue)))
	if err != nil || !slices.Equal(body, []any{uint32(primaryOwner)}) {
		f.t.Fatalf("own %s: %v, %v", service, body, err)
	}
	f.mu.Lock()
	f.conn = conn
	f.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.serve(conn)
	}()
	f.stop = func() {
		conn.Close()
		<-ended
	}
}

// Stop ends it, and returns when the bus knows.
func (f *Firewalld) Stop() {
	f.t.Helper()
	if f.stop == nil {
		return
	}
	f.stop()
	f.stop = nil
	f.mu.Lock()
	f.runtime = map[string][]string{}
	f.mu.Unlock()
	ctx := f.t.Context()
	if ctx.Err() != nil {
		return // the test is over, and its bus goes too
	}
	conn, err := dbus.Dial(ctx, f.bus)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	for {
		body, err := conn.Call(ctx, dbus.BusCall("NameHasOwner", service))
		if err != nil {
			f.t.Fatal(err)
		}
		if slices.Equal(body, []any{false}) {
			return
		}
	}
}

// Crash ends it at once, and may be called by what Before was given: then the call gets no answer.
func (f *Firewalld) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn.Close()
}

// Reload is firewall-cmd --reload: sources that are not permanent are gone.
func (f *Firewalld) Reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime = map[string][]string{}
	for zone, sources := range f.permanent {
		f.runtime[zone] = slices.Clone(sources)
	}
}

// Add adds a source by hand, to what runs.
func (f *Firewalld) Add(zone, source string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runtime[zone] = append(f.runtime[zone], source)
}

// Sources are those that are in a zone, sorted.
func (f *Firewalld) Sources(zone string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.runtime[zone]))
}

// Calls returns the methods that were called since it was asked last.
func (f *Firewalld) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// Before has do called with each call before it takes effect, and before it is answered.
func (f *Firewalld) Before(do func(method string, args []string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = do
}

// serve answers calls until the connection ends.
func (f *Firewalld) serve(conn *dbus.Conn) {
	for {
		m, err := conn.Receive()
		if err != nil {
			return
		}
		if m.Kind != dbus.MethodCall {
			continue
		}
		answer := f.answer(m)
		answer.Destination, answer.ReplyTo = m.Sender, m.Serial()
		if _, err := conn.Send(answer); err != nil {
			return
		}
	}
}

// failure is an error of firewalld's own.
func failure(code, format string, args ...any) dbus.Message {
	return dbus.Message{Kind: dbus.ErrorReply, ErrorName: service + ".Exception", Body: []any{code + ": " + fmt.Sprintf(format, args...)}}
}

func (f *Firewalld) answer(m dbus.Message) dbus.Message {
	var args []string
	for _, v := range m.Body {
		if s, ok := v.(string); ok {
			args = append(args, s)
		}
	}
	f.mu.Lock()
	before := f.before
	f.calls = append(f.calls, m.Member)
	f.mu.Unlock()
	if before != nil {
		before(m.Member, args)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known := map[string]int{"addSource": 2, "removeSource": 2, "querySource": 2, "getZoneOfSource": 1}
	if n, ok := known[m.Member]; !ok || m.Interface != zoneInterface || len(args) != n || len(m.Body) != n {
		return dbus.Message{Kind: dbus.ErrorReply, ErrorName: dbus.BusName + ".Error.UnknownMethod", Body: []any{m.Interface + "." + m.Member}}
	}
	if m.Member == "getZoneOfSource" {
		return dbus.Message{Kind: dbus.MethodReturn, Body: []any{f.zoneOf(args[0])}}
	}
	return f.change(m.Member, args[0], args[1])
}

// change is what firewall/core/fw_zone.py does in 1.3.
func (f *Firewalld) change(method, zone, source string) dbus.Message {
	if _, ok := f.runtime[zone]; !ok && method != "removeSource" {
		return failure("INVALID_ZONE", "%s", zone)
	}
	in := f.zoneOf(source)
	done := dbus.Message{Kind: dbus.MethodReturn, Body: []any{zone}}
	switch {
	case method == "querySource":
		done.Body = []any{in == zone}
	case method == "addSource" && in == zone:
		return failure("ZONE_ALREADY_SET", "'%s' already bound to '%s'", source, zone)
	case method == "addSource" && in != "":
		return failure("ZONE_CONFLICT", "'%s' already bound to a zone", source)
	case method == "addSource":
		f.runtime[zone] = append(f.runtime[zone], source)
	case in == "":
		return failure("UNKNOWN_SOURCE", "'%s' is not in any zone", source)
	case in != zone:
		return failure("ZONE_CONFLICT", "remove_source(%s, %s): zos='%s'", zone, source, in)
	default:
		f.runtime[zone] = slices.DeleteFunc(f.runtime[zone], func(s string) bool { return s == source })
	}
	return done
}

// zoneOf is the zone that a source is in, "" if it is in none.
func (f *Firewalld) zoneOf(source string) string {
	for zone, sources := range f.runtime {
		if slices.Contains(sources, source) {
			return zone
		}
	}
	return ""
}
