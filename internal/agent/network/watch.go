package network

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// readiness is what STATUS last said, by network.
type readiness struct {
	mu   sync.Mutex
	errs map[string]error // a network that is ready has a nil one
}

// Run keeps the configurations current and asks each network for its STATUS until ctx ends: when the folder changes and every five
// seconds. It calls changed whenever networks came, went or became ready or not.
func (m *Manager) Run(ctx context.Context, changed func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		m.log.WarnContext(ctx, "the folder of network configurations is not watched, only read every few seconds", "error", err)
		watcher = &fsnotify.Watcher{} // its channels say nothing
	} else {
		defer watcher.Close()
	}
	tick := time.NewTicker(relistEvery)
	defer tick.Stop()
	for {
		// A folder that was removed and made again is another one, which the one around it tells; adding one that is watched is nothing.
		if err == nil {
			_ = watcher.Add(filepath.Dir(m.cfg.ConfDir)) // what isn't there yet is looked for again
			_ = watcher.Add(m.cfg.ConfDir)
		}
		if m.look(ctx) {
			changed()
		}
		if !m.awaitChange(ctx, watcher, tick.C) {
			return
		}
	}
}

// settle is how long the folder must be quiet after a change: what writes a file in place does so in several steps.
const settle = 20 * time.Millisecond

// awaitChange waits until it is time for another look; false is the end of ctx.
func (m *Manager) awaitChange(ctx context.Context, watcher *fsnotify.Watcher, tick <-chan time.Time) bool {
	for about := false; !about; {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case <-watcher.Errors: // the tick helps
			return true
		case e := <-watcher.Events:
			about = e.Name == m.cfg.ConfDir || filepath.Dir(e.Name) == m.cfg.ConfDir
		}
	}
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-quiet.C:
			return true
		case <-watcher.Events:
			quiet.Reset(settle)
		}
	}
}

// look reads the folder and asks for STATUS. It reports whether anything changed.
func (m *Manager) look(ctx context.Context) bool {
	changed := m.folder.read()
	errs := map[string]error{}
	for _, n := range m.folder.networks() {
		if err := m.ask(ctx, n); err != nil {
			errs[n.Name] = fmt.Errorf("%w%s%s", err, from(n), whatToDo(err))
			continue
		}
		errs[n.Name] = nil
	}
	if ctx.Err() != nil {
		return false
	}
	m.ready.mu.Lock()
	defer m.ready.mu.Unlock()
	for name, err := range errs {
		if old, known := m.ready.errs[name]; !known || (old == nil) != (err == nil) {
			changed = true
			if err != nil {
				m.log.WarnContext(ctx, "network is not ready", "network", name, "error", err)
			}
		}
	}
	m.ready.errs = errs
	return changed
}

// ask says why a network is not ready: a plugin that isn't there, which needs no version that has STATUS, or what STATUS says.
func (m *Manager) ask(ctx context.Context, n *libcni.NetworkConfigList) error {
	if _, err := m.cfg.CNI.Calls(cni.VerbStatus, n, nil); err != nil {
		return err
	}
	return m.cfg.CNI.GetStatusNetworkList(ctx, n)
}

// Status returns nil if pods can be attached to the default network, and otherwise why not.
func (m *Manager) Status() error {
	n, err := m.folder.defaultNetwork()
	if err != nil {
		return err
	}
	return m.status(n.Name)
}

// Ready returns nil if a pod can be attached to all of its networks, and otherwise what it waits for.
func (m *Manager) Ready(p *Pod) error {
	if err := m.Status(); err != nil {
		return err
	}
	for _, sel := range p.Networks {
		n, err := m.folder.network(sel.Name)
		if err != nil {
			return err
		}
		if err := m.status(n.Name); err != nil {
			return err
		}
	}
	return nil
}

// status is what STATUS said last; what was not asked yet is ready.
func (m *Manager) status(name string) error {
	m.ready.mu.Lock()
	defer m.ready.mu.Unlock()
	return m.ready.errs[name]
}
