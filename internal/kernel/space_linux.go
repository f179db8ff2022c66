package kernel

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/netstate"
)

// idleConns bounds the sockets that a space keeps for later.
const idleConns = 32

// space is a network namespace with its sockets, which are kept between calls. It may be used by several
// goroutines at once.
type space struct {
	ns     *netns.Handle
	own    bool // the namespace of this process: its threads need not move to it
	common *common

	mu      sync.Mutex
	idle    []*conn
	notices *notices
	dialed  bool // a socket was opened
	closed  bool

	deletions deletions
}

// conn takes a socket; put gives it back.
func (sp *space) conn() (*conn, error) {
	sp.mu.Lock()
	if n := len(sp.idle); n > 0 {
		c := sp.idle[n-1]
		sp.idle = sp.idle[:n-1]
		sp.mu.Unlock()
		return c, nil
	}
	sp.dialed = true
	sp.mu.Unlock()
	return dial(sp)
}

func (sp *space) put(c *conn) {
	sp.mu.Lock()
	keep := !c.broken && !sp.closed && len(sp.idle) < idleConns
	if keep {
		sp.idle = append(sp.idle, c)
	}
	sp.mu.Unlock()
	if !keep {
		c.close()
	}
}

// with runs f with a socket of the space.
func (sp *space) with(f func(c *conn) error) error {
	c, err := sp.conn()
	if err != nil {
		return err
	}
	defer sp.put(c)
	return f(c)
}

// fd is what a socket is bound to the space by; 0 for the process's own namespace.
func (sp *space) fd() int {
	if sp.own {
		return 0
	}
	return sp.ns.FD()
}

// cookie is the number of the namespace; 0 on a kernel that gives none (before Linux 5.14).
func (sp *space) cookie() (uint64, error) {
	var cookie uint64
	err := sp.with(func(c *conn) error {
		var err error
		cookie, err = unix.GetsockoptUint64(int(c.socket), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		if errors.Is(err, unix.ENOPROTOOPT) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read cookie of namespace: %w", err)
	}
	return cookie, nil
}

// visit runs f on a thread inside the space.
func (sp *space) visit(f func() error) error {
	if sp.own {
		return f()
	}
	return sp.ns.Do(f)
}

// do is visit for files below /proc. Who is there for the first time also opens the socket that will be asked for.
func (sp *space) do(f func() error) error {
	return sp.visit(func() error {
		sp.mu.Lock()
		first := !sp.dialed
		sp.dialed = true
		sp.mu.Unlock()
		if first {
			if c, err := dialHere(sp.common); err == nil { // who asks for one is told otherwise
				sp.put(c)
			}
		}
		return f()
	})
}

// procNet is the folder of what the kernel tells of the space's network, for a thread inside it. It finds that of the main thread, which
// [netns.Handle.Do] never moves, in less time than that of a thread it has not met.
func (sp *space) procNet() string {
	if sp.own {
		return "/proc/self/net"
	}
	return "/proc/thread-self/net"
}

// close closes the sockets, not the namespace's handle. A socket on which a deletion is under way is closed when the
// kernel has answered.
func (sp *space) close() error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.closed = true
	var errs []error
	for _, c := range sp.idle {
		errs = append(errs, c.close())
	}
	sp.idle = nil
	if sp.notices != nil {
		errs = append(errs, sp.notices.close())
		sp.notices = nil
	}
	return errors.Join(errs...)
}

// isMissing says that an object or its interface is not there.
func isMissing(errno unix.Errno) bool {
	switch errno {
	case unix.ENODEV, unix.ENOENT, unix.ESRCH, unix.EADDRNOTAVAIL:
		return true
	}
	return false
}

// listen returns the space's notices, and begins to listen the first time.
func (sp *space) listen() (*notices, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.closed {
		return nil, fmt.Errorf("listen for notices: %w", netstate.ErrNotExist)
	}
	if sp.notices == nil {
		n, err := listen(sp.fd())
		if err != nil {
			return nil, err
		}
		sp.notices = n
	}
	return sp.notices, nil
}
