// Package firewalld binds addresses, as sources, to zones of firewalld, for owners, and knows later which are whose.
//
// firewalld's sources carry no mark. So each is noted, before it is bound, by a file in a folder that ends with the
// machine's run as the sources do: see notes_linux.go. What is bound at a time that somebody else had bound it already is noted
// as found, and stays when its owner goes. Several owners may have one source; it goes with the last of them.
//
// Only what runs is changed, never firewalld's permanent configuration. A firewalld that is not there has no
// sources: then there is nothing to remove, and nothing is missing that could be put back. What is not kept open between calls
// is the connection: firewalld's own work takes a hundred times as long as making one.
package firewalld

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/internal/dbus"
	"github.com/cleat-cni/cleat/netstate"
)

// Config says where firewalld and the notes are.
type Config struct {
	Bus string // the system bus's address. Default: $DBUS_SYSTEM_BUS_ADDRESS, or else the usual socket
	Dir string // the notes' folder, made when it is needed. Default /run/cleat/firewalld
}

// Zones are firewalld's, with the notes. They may be used by several goroutines and processes at once.
type Zones struct{ bus, dir string }

// New returns the zones. It looks at nothing yet.
func New(cfg Config) *Zones {
	return &Zones{
		bus: cmp.Or(cfg.Bus, os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"), "unix:path=/run/dbus/system_bus_socket"),
		dir: cmp.Or(cfg.Dir, "/run/cleat/firewalld"),
	}
}

// callTimeout bounds a call where the caller sets no bound. firewalld reloads in seconds, and answers nobody meanwhile.
const callTimeout = 30 * time.Second

const (
	service       = "org.fedoraproject.FirewallD1"
	objectPath    = "/org/fedoraproject/FirewallD1"
	zoneInterface = service + ".zone"
	failureName   = service + ".Exception" // of all of firewalld's own errors, whose text begins with a code
)

// errAway says that firewalld is not there.
var errAway = errors.New("firewalld does not answer on the system bus")

// daemon is firewalld, connected to.
type daemon struct{ conn *dbus.Conn }

// connect connects to firewalld. The error is errAway if it isn't there. Nothing is started by it.
func (z *Zones) connect(ctx context.Context) (*daemon, error) {
	conn, err := dbus.Dial(ctx, z.bus)
	if errors.Is(err, dbus.ErrNoBus) {
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	if err != nil {
		return nil, err
	}
	body, err := conn.Call(ctx, dbus.BusCall("NameHasOwner", service))
	switch {
	case err != nil:
	case !slices.Equal(body, []any{true}):
		err = errAway
	default:
		return &daemon{conn}, nil
	}
	conn.Close()
	return nil, err
}

// close ends the connection, on which nothing is under way.
func (d *daemon) close() {
	if d != nil {
		d.conn.Close()
	}
}

// bounded is ctx with callTimeout, unless it has a bound.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// Answers reports whether firewalld is there. Without a bus that is one call of the kernel's.
func (z *Zones) Answers(ctx context.Context) (bool, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d, err := z.connect(ctx)
	d.close()
	if errors.Is(err, errAway) {
		return false, nil
	}
	return err == nil, err
}

// code is the code of an error of firewalld's own, such as INVALID_ZONE; "" if err is none.
func code(err error) string {
	e, ok := errors.AsType[*dbus.Error](err)
	if !ok || e.Name != failureName {
		return ""
	}
	word, _, _ := strings.Cut(e.Text, ":")
	return word
}

// call calls a method of the zones' interface.
func (d *daemon) call(ctx context.Context, method string, args ...any) (any, error) {
	body, err := d.conn.Call(ctx, dbus.Message{Kind: dbus.MethodCall, Flags: dbus.NoAutoStart, Destination: service, Path: objectPath,
		Interface: zoneInterface, Member: method, Body: args})
	if e, ok := errors.AsType[*dbus.Error](err); ok && slices.Contains(goneNames(), e.Name) {
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	if err != nil {
		return nil, err
	}
	if len(body) != 1 {
		return nil, fmt.Errorf("call %s: firewalld answers with %d values", method, len(body))
	}
	return body[0], nil
}

// goneNames are the bus's errors for a service that ended, before or during a call.
func goneNames() []string {
	const prefix = dbus.BusName + ".Error."
	return []string{prefix + "ServiceUnknown", prefix + "NameHasNoOwner", prefix + "NoReply", prefix + "Disconnected"}
}

// query reports whether the source is in its zone. The error is netstate.ErrNotExist if there is no such zone.
func (d *daemon) query(ctx context.Context, s netstate.Source) (bool, error) {
	answer, err := d.call(ctx, "querySource", s.Zone, s.Prefix.String())
	if code(err) == "INVALID_ZONE" {
		return false, fmt.Errorf("zone %s of firewalld: %w", s.Zone, netstate.ErrNotExist)
	}
	there, _ := answer.(bool)
	return there, err
}

// add binds the source. That it is bound to this zone already is success; bound to another is an error which names that. The
// codes are those of firewalld 0.3 to 2.3.
func (d *daemon) add(ctx context.Context, s netstate.Source) error {
	_, err := d.call(ctx, "addSource", s.Zone, s.Prefix.String())
	switch code(err) {
	case "ZONE_ALREADY_SET", "ALREADY_ENABLED":
		return nil
	case "ZONE_CONFLICT":
		other, asked := d.call(ctx, "getZoneOfSource", s.Prefix.String())
		if asked != nil {
			return err
		}
		return fmt.Errorf("zone %v of firewalld has the source, and no other can: remove it there: %w", other, err)
	}
	return err
}

// remove takes the source out of its zone. That it is not there, in whatever zone it is, is success.
func (d *daemon) remove(ctx context.Context, s netstate.Source) error {
	_, err := d.call(ctx, "removeSource", s.Zone, s.Prefix.String())
	if slices.Contains([]string{"UNKNOWN_SOURCE", "NOT_ENABLED", "ZONE_CONFLICT", "INVALID_ZONE"}, code(err)) {
		return nil
	}
	return err
}

// Missing returns those of list that are not in their zones: all, if firewalld is not there.
func (z *Zones) Missing(ctx context.Context, list []netstate.Source) ([]netstate.Source, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d, err := z.connect(ctx)
	if errors.Is(err, errAway) {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.close()
	var missing []netstate.Source
	for _, s := range list {
		there, err := d.query(ctx, s)
		switch {
		case errors.Is(err, errAway):
			return list, nil
		case err != nil && !errors.Is(err, netstate.ErrNotExist):
			return nil, about(s, err)
		case !there:
			missing = append(missing, s)
		}
	}
	return missing, nil
}

// Supports reports whether sources could be bound to the zones of list: whether firewalld and the zones are there.
func (z *Zones) Supports(ctx context.Context, list []netstate.Source) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d, err := z.connect(ctx)
	if err != nil {
		return about(list[0], err)
	}
	defer d.close()
	for _, s := range list {
		if _, err := d.query(ctx, s); err != nil {
			return about(s, err)
		}
	}
	return nil
}

func about(s netstate.Source, err error) error {
	return &netstate.ObjectError{Object: s.Key(), Err: err}
}

// source is one without an owner, as it is compared.
func source(zone string, p netip.Prefix) netstate.Source {
	return netstate.Source{Zone: zone, Prefix: p}
}
