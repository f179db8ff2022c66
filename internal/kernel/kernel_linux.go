package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/cleat-cni/cleat/internal/firewalld"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/netstate"
)

// Config configures a [Kernel].
type Config struct {
	// Host is the namespace that counts as the host's; the caller closes it after the Kernel.
	// Default: the namespace of this process.
	Host *netns.Handle
	Log  *slog.Logger // default: nothing is logged
	// Programs are the folders in which the programs of iptables are looked for, in the form of $PATH. Default:
	// $PATH, and the usual folders of an administrator's programs.
	Programs string
	// Schema is the form in which links are marked, and up to which they are touched. Default: netstate.Schema. Tests of an
	// upgrade set another.
	Schema int
	// Firewalld says where firewalld is, and where it is noted whose its sources are. Default: this machine's.
	Firewalld firewalld.Config
}

// Kernel acts in the host's network namespace and opens sessions in those of pods. It keeps its sockets until
// Close, and may be used by several goroutines at once.
type Kernel struct {
	host   *space
	log    *slog.Logger
	common common
	schema int

	ipt   iptables
	iptMu sync.Mutex // one call at a time, so that those of this process do not race

	zones *firewalld.Zones

	rulesMu sync.Mutex
	rules   *ruleset // nil until a state needs it
	// checked are tables that were found right. They are few: those of the plugins.
	checked []netstate.Table

	triedMu sync.Mutex
	tried   map[string]bool // states, as text, that Supports has made
}

// New returns a Kernel. It opens no socket yet.
func New(cfg Config) (*Kernel, error) {
	k := &Kernel{log: cfg.Log, zones: firewalld.New(cfg.Firewalld), schema: cmp.Or(cfg.Schema, netstate.Schema)}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	k.host = &space{ns: cfg.Host, common: &k.common}
	k.ipt = iptables{space: k.host, path: cfg.Programs}
	if cfg.Host == nil {
		ns, err := netns.Current()
		if err != nil {
			return nil, err
		}
		k.host.ns, k.host.own = ns, true
	}
	return k, nil
}

// Close waits for link deletions that the kernel has not finished, at most some 20 ms, and closes the
// sockets. Sessions must be closed before.
func (k *Kernel) Close() error {
	k.common.deletes.Wait()
	err := k.host.close()
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	if k.rules != nil {
		err = errors.Join(err, k.rules.close())
		k.rules = nil
	}
	if k.host.own {
		err = errors.Join(err, k.host.ns.Close())
	}
	return err
}

// ruleset returns the host's nft half, which is opened the first time.
func (k *Kernel) ruleset() (*ruleset, error) {
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	if k.rules == nil {
		r, err := openRuleset(k.host)
		if err != nil {
			return nil, err
		}
		k.rules = r
	}
	return k.rules, nil
}

// checkTables compiles the tables and elements of a state. Tables that were compiled before are not compiled
// again.
func (k *Kernel) checkTables(st netstate.State) error {
	if len(st.Tables)+len(st.Elements) == 0 {
		return nil
	}
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	right := func(t netstate.Table) bool {
		return slices.ContainsFunc(k.checked, func(o netstate.Table) bool { return sameTable(t, o) })
	}
	if slices.ContainsFunc(st.Tables, func(t netstate.Table) bool { return !right(t) }) {
		for _, t := range onePerName(st.Tables) {
			if err := (&tableBuilder{}).table(t, seenTable{}); err != nil {
				return about(t, err)
			}
		}
		k.checked = append(k.checked, st.Tables...)
	}
	_, err := encodeElements(st)
	return err
}

func sameTable(a, b netstate.Table) bool {
	return a.Family == b.Family && a.Name == b.Name &&
		slices.EqualFunc(a.Sets, b.Sets, func(a, b netstate.Set) bool {
			return a.Name == b.Name && slices.Equal(a.Key, b.Key) && slices.Equal(a.Data, b.Data)
		}) &&
		slices.EqualFunc(a.Chains, b.Chains, func(a, b netstate.Chain) bool {
			return a.Name == b.Name && a.Type == b.Type && a.Hook == b.Hook && a.Priority == b.Priority && slices.Equal(a.Rules, b.Rules)
		})
}

// Open binds the host's namespace and the one at path pod; with "" only the host's. The error is netstate.ErrNotExist
// or ErrNotNamespace for a path that leads to no network namespace, ErrHostNamespace for the host's own, unless
// allowHost.
func (k *Kernel) Open(ctx context.Context, pod string, allowHost bool) (*Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := &Session{k: k, seen: map[netstate.Ref]*device{}}
	if pod == "" {
		return s, nil
	}
	ns, err := netns.Open(pod)
	if err != nil {
		return nil, err
	}
	same, err := ns.Same(k.host.ns)
	switch {
	case err != nil:
		ns.Close()
		return nil, err
	case same && !allowHost:
		ns.Close()
		return nil, fmt.Errorf("open namespace %s: %w", pod, netstate.ErrHostNamespace)
	case same:
		ns.Close()
		s.pod = k.host
		return s, nil
	}
	s.pod = &space{ns: ns, common: &k.common}
	return s, nil
}

// alive says whether what an nft element names as the proof of its owner's life is there: "link vethab12" on the
// host, "netns /run/netns/x". What is not known is taken as alive, so that nobody's element is taken.
func (k *Kernel) alive(ctx context.Context, lives string) bool {
	kind, name, _ := strings.Cut(lives, " ")
	switch kind {
	case "link":
		err := k.host.with(func(c *conn) error {
			_, err := c.link(ctx, netstate.Ref{Place: netstate.Host, Name: name})
			return err
		})
		return !errors.Is(err, netstate.ErrNotExist)
	case "netns":
		ns, err := netns.Open(name)
		if err == nil {
			ns.Close()
		}
		return !errors.Is(err, netstate.ErrNotExist) && !errors.Is(err, netstate.ErrNotNamespace)
	}
	return true
}
