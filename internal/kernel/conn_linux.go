package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// receiveBuffer holds any datagram of the kernel: dumps come in at most 32 KiB.
	receiveBuffer = 32<<10 + 1
	// batchSize and batchCount bound what is sent at once: the answers of one batch must fit into
	// the socket's receive buffer (208 KiB by default, about 1 KiB an answer).
	batchSize  = 32 << 10
	batchCount = 64
)

// conn is an rtnetlink socket bound to a namespace. It is for one goroutine.
type conn struct {
	socket
	sequence uint32
	in       []byte // from common.buffers
	out      []byte
	broken   bool // answers may be outstanding: not to be used again
	common   *common
}

// common is what all sockets of a Kernel share.
type common struct {
	sent    atomic.Uint64  // rtnetlink messages
	deletes sync.WaitGroup // link deletions that the kernel has not answered
	buffers sync.Pool      // of *[]byte, receiveBuffer long
}

func (o *common) buffer() []byte {
	if b, ok := o.buffers.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, receiveBuffer)
}

// dial opens a socket in a space.
func dial(sp *space) (c *conn, err error) {
	err = sp.visit(func() error {
		c, err = dialHere(sp.common)
		return err
	})
	return c, err
}

// dialHere opens a socket in the namespace of the calling thread.
func dialHere(o *common) (*conn, error) {
	sock, err := openSocket(unix.NETLINK_ROUTE, unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return &conn{socket: sock, in: o.buffer(), common: o}, nil
}

func (c *conn) close() error {
	b := c.in
	c.in = nil
	c.common.buffers.Put(&b)
	return c.socket.close()
}

// socketError is a system call on a socket to the kernel that failed. It does not unwrap to its number, which says nothing
// about an object, as the same number in an answer of the kernel does: ENODEV that there is no such interface.
type socketError struct {
	step string
	err  error
}

func (e *socketError) Error() string { return e.step + ": " + e.err.Error() }

// run sends the requests in as few system calls as it can and waits for every answer, which it
// writes into the requests. An error is one of the transport, and then requests that are not done may
// have been executed; refusals by the kernel are in the requests.
func (c *conn) run(ctx context.Context, list ...*request) error {
	for len(list) > 0 {
		n, err := c.send(ctx, list)
		if err != nil {
			return err
		}
		if err := c.answers(ctx, list[:n]); err != nil {
			c.broken = true
			return err
		}
		list = list[n:]
	}
	return nil
}

// send sends as many requests as one batch takes, and returns their number.
func (c *conn) send(ctx context.Context, list []*request) (int, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	c.out = c.out[:0]
	n := 0
	for _, r := range list {
		if n > 0 && (n == batchCount || len(c.out)+len(r.body) > batchSize) {
			break
		}
		c.sequence++
		r.sequence = c.sequence
		r.body.pad()
		flags := r.flags | unix.NLM_F_REQUEST
		if flags&unix.NLM_F_DUMP != unix.NLM_F_DUMP || r.kind&3 != kindGet {
			flags |= unix.NLM_F_ACK
		}
		native.PutUint32(r.body, uint32(len(r.body)))
		native.PutUint16(r.body[4:], r.kind)
		native.PutUint16(r.body[6:], flags)
		native.PutUint32(r.body[8:], r.sequence)
		c.out = append(c.out, r.body...)
		n++
	}
	c.common.sent.Add(uint64(n))
	return n, c.write()
}

// kindGet: the two lowest bits of an rtnetlink type say new, delete, get or set.
const kindGet = 2

// write sends the batch. The kernel executes it before the call returns.
func (c *conn) write() error {
	if err := c.socket.send(c.out); err != nil {
		c.broken = true
		return &socketError{"send to the kernel", err}
	}
	return nil
}

// answers reads until every request of the batch is done.
func (c *conn) answers(ctx context.Context, batch []*request) error {
	for left := len(batch); left > 0; {
		b, err := c.read(ctx)
		if err != nil {
			return err
		}
		for len(b) >= headerLen {
			size := int(native.Uint32(b))
			if size < headerLen || size > len(b) {
				return fmt.Errorf("receive from the kernel: %w", errShort)
			}
			if answered(batch, b[:size]) {
				left--
			}
			b = b[min(align(size), len(b)):]
		}
	}
	return nil
}

// answered gives one message to the request that it answers and reports whether that is done with it.
func answered(batch []*request, b []byte) bool {
	i := native.Uint32(b[8:]) - batch[0].sequence
	if i >= uint32(len(batch)) || batch[i].done {
		return false
	}
	r := batch[i]
	kind, flags, body := native.Uint16(b[4:]), native.Uint16(b[6:]), b[headerLen:]
	if flags&unix.NLM_F_DUMP_INTR != 0 {
		r.err = errInterrupted
	}
	switch kind {
	case unix.NLMSG_ERROR:
		r.finish(parseAnswer(flags, body))
	case unix.NLMSG_DONE:
		// The end of a dump may carry an error in place of an answer.
		if len(body) >= 4 {
			r.finish(parseAnswer(0, body))
		} else {
			r.finish(nil)
		}
	default:
		if r.reply != nil {
			r.reply(kind, body)
		}
	}
	return r.done
}

// finish notes the kernel's answer.
func (r *request) finish(err error) {
	r.done, r.made = true, err == nil
	if errno, ok := errors.AsType[unix.Errno](err); ok && r.accept != nil && r.accept(errno) {
		err = nil
	}
	if err != nil {
		r.err = err
	}
}

// errInterrupted: the kernel's table changed while it was read, and the reader may have missed some.
var errInterrupted = errors.New("the table changed while it was read")

// read receives one datagram. The kernel answers before a write returns, so it almost never waits; when it
// does, ctx ends it.
func (c *conn) read(ctx context.Context) ([]byte, error) {
	n, err := c.receive(c.in)
	for errors.Is(err, unix.EAGAIN) {
		if err := c.wait(ctx); err != nil {
			c.broken = true
			return nil, err
		}
		n, err = c.receive(c.in)
	}
	if err != nil {
		return nil, &socketError{"receive from the kernel", err}
	}
	if n == len(c.in) {
		return nil, fmt.Errorf("receive from the kernel: %w", errShort)
	}
	return c.in[:n], nil
}

// dumpTries bounds how often a dump is repeated because the table changed under it. The last
// result is good enough then: what was there all the time is in it.
const dumpTries = 5

// dump asks for a list and calls each with the body of every entry. An error of
// the kernel is returned as it is.
func (c *conn) dump(ctx context.Context, kind uint16, body message, each func(kind uint16, body []byte)) error {
	type entry struct {
		kind uint16
		body []byte
	}
	for try := 1; ; try++ {
		var all []entry
		r := &request{kind: kind, flags: unix.NLM_F_DUMP, body: body,
			reply: func(kind uint16, body []byte) { all = append(all, entry{kind, append([]byte(nil), body...)}) }}
		if err := c.run(ctx, r); err != nil {
			return err
		}
		interrupted := errors.Is(r.err, errInterrupted)
		if interrupted && try < dumpTries {
			continue
		}
		if r.err != nil && !interrupted {
			return r.err
		}
		for _, e := range all {
			each(e.kind, e.body)
		}
		return nil
	}
}

// run1 runs one request and returns whatever went wrong.
func (c *conn) run1(ctx context.Context, r *request) error {
	if err := c.run(ctx, r); err != nil {
		return err
	}
	return r.failure()
}
