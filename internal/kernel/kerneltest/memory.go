// Package kerneltest is the test kit of package kernel: [Memory], a kernel in memory for the tests
// of what stands above it, and [Contract], one test that holds Memory and the real kernel to the same behaviour.
//
// Memory behaves: it keeps namespaces, links with their peers and masters, addresses, routes, rules, neighbours,
// sysctls, qdiscs, filters and nft tables, and refuses what Linux refuses, such as a route whose
// gateway nothing reaches. What it does not know it refuses too. It leaves out what carries packets: rules of
// chains are kept as text, conntrack entries and address leases do not exist in it.
//
// A world is a set of namespaces by number. Apply works on copies of the two namespaces it acts in and puts them
// in place when all went well, so that it makes all or nothing; Remove works in place, object by object.
package kerneltest

import (
	"context"
	"fmt"
	"sync"

	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// HostPath is the path by which [Memory.Open] takes the host's own namespace.
const HostPath = "/proc/1/ns/net"

// hostID is the number of the host's namespace; noID stands for none.
const (
	noID   = 0
	hostID = 1
)

// Config configures a [Memory].
type Config struct {
	// Fault may make a step fail, to test how others cope: an error that it returns is the
	// step's. A step is a verb and what it acts on: "open /run/netns/a", "observe", "diff", "collect n",
	// "make host link cni0", "up pod link eth0", "remove pod addr 10.88.0.5/16 dev eth0" (the objects by their keys). It is
	// called with the kernel locked and must not call it. Default: nothing fails.
	Fault func(step string) error
	// NoNFTables: the kernel has no nf_tables.
	NoNFTables bool
	// Firewalld: firewalld runs. See [Memory.StartFirewalld].
	Firewalld bool
}

// Memory is a kernel in memory. It is safe for concurrent use.
type Memory struct {
	fault func(step string) error
	noNFT bool

	mu     sync.Mutex
	spaces map[int]*space
	paths  map[string]int // of living namespaces with a name
	files  map[string]bool
	last   int
	opened map[int]int // how many sessions keep the namespace alive

	firewalld bool // it runs
}

var _ planned.Kernel = (*Memory)(nil)

// NewMemory returns a kernel with the host's namespace, which holds lo, up.
func NewMemory(cfg Config) *Memory {
	host := newSpace("host")
	lo := host.links["lo"]
	lo.Down = false
	host.links["lo"] = lo
	m := &Memory{
		fault:  cfg.Fault,
		noNFT:  cfg.NoNFTables,
		spaces: map[int]*space{hostID: host},
		paths:  map[string]int{HostPath: hostID},
		files:  map[string]bool{},
		last:   hostID,
		opened: map[int]int{},
	}
	if m.fault == nil {
		m.fault = noFault
	}
	if cfg.Firewalld {
		m.StartFirewalld()
	}
	return m
}

func noFault(string) error { return nil }

// NewPod makes a namespace, which holds lo, down, and returns its path.
func (m *Memory) NewPod() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	path := fmt.Sprintf("/run/netns/pod%d", m.last-hostID)
	m.spaces[m.last] = newSpace(path)
	m.paths[path] = m.last
	return path
}

// RemovePod takes the name from a namespace. With the last open session it ends, with
// its links and their peers.
func (m *Memory) RemovePod(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok := m.paths[path]
	if !ok || id == hostID {
		return fmt.Errorf("remove namespace %s: %w", path, netstate.ErrNotExist)
	}
	delete(m.paths, path)
	m.reap(id)
	return nil
}

// NewFile makes a path that is there and is no namespace.
func (m *Memory) NewFile() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := fmt.Sprintf("/run/netns/file%d", len(m.files)+1)
	m.files[path] = true
	return path
}

// Open implements planned.Kernel.
func (m *Memory) Open(ctx context.Context, pod string, allowHost bool) (planned.Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", pod, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fault("open " + pod); err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", pod, err)
	}
	id := noID
	if pod != "" {
		var err error
		if id, err = m.find(pod); err != nil {
			return nil, fmt.Errorf("open namespace %s: %w", pod, err)
		}
	}
	if id == hostID && !allowHost {
		return nil, fmt.Errorf("open namespace %s: %w", pod, netstate.ErrHostNamespace)
	}
	m.opened[id]++
	return &session{m: m, pod: id}, nil
}

// find returns the namespace at path.
func (m *Memory) find(path string) (int, error) {
	if m.files[path] {
		return noID, netstate.ErrNotNamespace
	}
	id, ok := m.paths[path]
	if !ok {
		return noID, netstate.ErrNotExist
	}
	return id, nil
}

// reap ends the namespace if nothing names it or has it open.
func (m *Memory) reap(id int) {
	if m.opened[id] > 0 {
		return
	}
	for _, other := range m.paths {
		if other == id {
			return
		}
	}
	s := m.spaces[id]
	for _, l := range s.links {
		if l.peer.id != noID && l.peer.id != id {
			w := world(m.spaces)
			w.delete(l.peer.id, l.peer.name)
		}
	}
	delete(m.spaces, id)
	delete(m.opened, id)
}

// AddLink makes a link by hand, which belongs to nobody, in the namespace at path; "" is the host's. It
// is up unless Down says otherwise. A veth can't be made so.
func (m *Memory) AddLink(path string, l netstate.Link) error {
	return m.byHand(path, func(x *transaction) error {
		l.Place = netstate.Pod
		if err := (netstate.State{Links: []netstate.Link{l}}).Check(); err != nil {
			return err
		}
		if err := x.makeLink(l); err != nil {
			return fmt.Errorf("make %s: %w", l.Key(), err)
		}
		return x.up(l)
	})
}

// AddAddr gives a link an address by hand.
func (m *Memory) AddAddr(path string, a netstate.Addr) error {
	return m.byHand(path, func(x *transaction) error {
		a.Place = netstate.Pod
		return x.makeAddr(a)
	})
}

// AddRoute adds a route by hand.
func (m *Memory) AddRoute(path string, r netstate.Route) error {
	return m.byHand(path, func(x *transaction) error {
		r.Place = netstate.Pod
		return x.makeRoute(r)
	})
}

// DelLink deletes a link by hand, with all that goes with it.
func (m *Memory) DelLink(path, name string) error {
	return m.byHand(path, func(x *transaction) error {
		if _, ok := x.w[x.pod].links[name]; !ok {
			return fmt.Errorf("delete link %s: %w", name, netstate.ErrNotExist)
		}
		x.w.delete(x.pod, name)
		return nil
	})
}

// DelRoute deletes by hand the route that has destination, device, table and priority of r.
func (m *Memory) DelRoute(path string, r netstate.Route) error {
	return m.byHand(path, func(x *transaction) error {
		s := x.w[x.pod]
		for i, have := range s.routes {
			if sameRoute(r, have) {
				s.routes = append(s.routes[:i:i], s.routes[i+1:]...)
				return nil
			}
		}
		return fmt.Errorf("delete %s: %w", r.Key(), netstate.ErrNotExist)
	})
}

// byHand runs f on the namespace at path, which is the transaction's pod.
func (m *Memory) byHand(path string, f func(x *transaction) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := hostID
	if path != "" {
		var err error
		if id, err = m.find(path); err != nil {
			return fmt.Errorf("open namespace %s: %w", path, err)
		}
	}
	return f(&transaction{w: m.spaces, pod: id, fault: noFault})
}
