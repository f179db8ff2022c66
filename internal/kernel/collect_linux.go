package kernel

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// Collect removes, unless dryRun, the host's links, the nft elements and what else carries the mark of network and of no owner in
// valid. It returns what that was, also beside an error.
func (k *Kernel) Collect(ctx context.Context, network string, valid []netstate.Owner, dryRun bool) ([]netstate.Freed, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, o := range valid {
		keep[o.Mark()] = true
		keep[o.HostName("")] = true
	}
	stale, freed, err := k.staleLinks(ctx, network, keep)
	if err != nil {
		return nil, err
	}
	var errs []error
	if !dryRun {
		errs = append(errs, k.host.with(func(c *conn) error { return runAll(ctx, c, setDown(stale)) }))
	}
	elements, err := k.collectElements(ctx, network, keep, dryRun)
	freed, errs = append(freed, elements...), append(errs, err)
	rules, err := k.collectIptables(ctx, network, keep, dryRun)
	freed, errs = append(freed, rules...), append(errs, err)
	sources, err := k.zones.Collect(ctx, network, keep, dryRun)
	freed, errs = append(freed, sources...), append(errs, err)
	if !dryRun {
		errs = append(errs, k.host.deleteLinks(ctx, stale...))
	}
	return freed, errors.Join(errs...)
}

func (k *Kernel) collectElements(ctx context.Context, network string, keep map[string]bool, dryRun bool) ([]netstate.Freed, error) {
	r, err := k.ruleset()
	if err != nil {
		return nil, k.nothingWithoutNFTables(ctx, err)
	}
	freed, err := r.collect(ctx, network, keep, dryRun)
	return freed, k.nothingWithoutNFTables(ctx, err)
}

// staleLinks lists the links of the network whose owners are not to be kept.
func (k *Kernel) staleLinks(ctx context.Context, network string, keep map[string]bool) ([]*device, []netstate.Freed, error) {
	var (
		all   []*device
		stale []*device
		freed []netstate.Freed
	)
	err := k.host.with(func(c *conn) error {
		var err error
		all, err = c.links(ctx, netstate.Host)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	names := map[int32]string{}
	for _, d := range all {
		names[d.index] = d.name
	}
	for _, d := range all {
		mark, owner, ok := netstate.ParseMark(d.alias)
		ok = ok && !keep[mark] && strings.HasPrefix(mark, netstate.NetworkMark(network)+"-")
		if !ok && !isUnfinished(d, network, keep) {
			continue
		}
		if err := k.known(d); err != nil {
			k.log.Warn("left alone", "error", err)
			continue
		}
		if owner.IsZero() {
			owner.Network = network
		}
		l := d.link()
		l.Master = names[d.master]
		stale = append(stale, d)
		freed = append(freed, netstate.Freed{Object: l.String(), Mark: mark, Owner: owner})
	}
	return stale, freed, nil
}

// isUnfinished reports whether a link is what a killed attempt in the network left before it set the alias, and its name is of no owner in
// keep.
func isUnfinished(d *device, network string, keep map[string]bool) bool {
	return d.alias == "" && d.group == unfinished(network) && !keep[d.name[max(0, len(d.name)-hostNameDigits):]]
}

// hostNameDigits is how long netstate.Owner.HostName is without its prefix.
const hostNameDigits = 11

// setDown are the requests that take links down. They do not depend on each other.
func setDown(list []*device) batch {
	var b batch
	for _, d := range list {
		b = append(b, &request{kind: unix.RTM_SETLINK, body: linkMessage(d.index, 0, unix.IFF_UP), object: d.key(),
			step: "set down", accept: isMissing})
	}
	return b
}

// runAll runs requests that do not depend on each other.
func runAll(ctx context.Context, c *conn, b batch) error {
	errs := []error{c.run(ctx, b...)}
	for _, r := range b {
		errs = append(errs, r.failure())
	}
	return errors.Join(errs...)
}
