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
	ahead   chan opened // gives the socket that is being opened, if one is
	notices *notices
	closed  bool

	deletions deletions
}

// opened is what came of opening a socket.
type opened struct {
	conn *conn
	err  error
}

// openAhead begins to open the socket that conn will be asked for, unless one is there.
func (sp *space) openAhead() {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.closed || sp.ahead != nil || len(sp.idle) > 0 {
		return
	}
	ahead := make(chan opened, 1)
	sp.ahead = ahead
	go func() {
		c, err := dial(sp.fd(), sp.common)
		ahead <- opened{c, err}
	}()
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
	ahead := sp.ahead
	sp.ahead = nil
	sp.mu.Unlock()
	if ahead != nil {
		o := <-ahead
		return o.conn, o.err
	}
	return dial(sp.fd(), sp.common)
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

// do runs f on a thread inside the space, for files below /proc/sys.
func (sp *space) do(f func() error) error {
	if sp.own {
		return f()
	}
	return sp.ns.Do(f)
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
	if sp.ahead != nil {
		// Nobody asked for it, so that an error is none.
		if o := <-sp.ahead; o.err == nil {
			errs = append(errs, o.conn.close())
		}
		sp.ahead = nil
	}
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
