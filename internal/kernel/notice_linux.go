package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// noticeBuffer is the receive buffer of the notice socket: some thousand notices. One that is
// lost all the same costs its waiter only time, since the answer to the deletion comes too.
const noticeBuffer = 1 << 20

// notices hears the kernel say which links of a namespace are gone.
type notices struct {
	nl   *netlink.Conn
	done chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	waiting map[int32][]chan struct{}
}

// listen subscribes to the link notices of the namespace with descriptor fd.
func listen(fd int) (*notices, error) {
	nl, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: fd})
	if err != nil {
		return nil, fmt.Errorf("listen for link notices: %w", err)
	}
	n := &notices{nl: nl, done: make(chan struct{}), waiting: map[int32][]chan struct{}{}}
	raw, err := n.subscribe()
	if err != nil {
		nl.Close()
		return nil, fmt.Errorf("listen for link notices: %w", err)
	}
	go n.read(raw)
	return n, nil
}

func (n *notices) subscribe() (syscall.RawConn, error) {
	raw, err := n.nl.SyscallConn()
	if err != nil {
		return nil, err
	}
	// As another user than root the default must do.
	if err := n.nl.SetReadBuffer(noticeBuffer); err != nil && !errors.Is(err, unix.EPERM) {
		return nil, err
	}
	var ferr error
	if err := raw.Control(func(fd uintptr) { ferr = onlyDeletions(int(fd)) }); err != nil || ferr != nil {
		return nil, errors.Join(err, ferr)
	}
	return raw, n.nl.JoinGroup(unix.RTNLGRP_LINK)
}

// onlyDeletions lets the socket receive RTM_DELLINK alone, so that changes of links, of
// which each ADD makes several, do not wake the reader.
func onlyDeletions(fd int) error {
	const typeOffset = 4
	// The filter's loads are big endian, the header's type is native.
	kind := uint32(binary.BigEndian.Uint16(native.AppendUint16(nil, unix.RTM_DELLINK)))
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: typeOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: kind},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// read dispatches notices until the socket is closed.
func (n *notices) read(raw syscall.RawConn) {
	defer close(n.done)
	buf := make([]byte, receiveBuffer)
	for {
		var (
			size int
			err  error
		)
		rerr := raw.Read(func(fd uintptr) bool {
			size, err = unix.Read(int(fd), buf)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case rerr != nil:
			return
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR):
			// Notices were lost: who waits for one gets the answer to its deletion instead.
		case err != nil:
			return
		default:
			n.dispatch(buf[:size])
		}
	}
}

func (n *notices) dispatch(b []byte) {
	for len(b) >= headerLen+unix.SizeofIfInfomsg {
		size := int(native.Uint32(b))
		if size < headerLen+unix.SizeofIfInfomsg || size > len(b) {
			return
		}
		// A port that leaves its bridge is told as a deletion too, of family AF_BRIDGE.
		info := b[headerLen:]
		if native.Uint16(b[4:]) == unix.RTM_DELLINK && info[0] == unix.AF_UNSPEC {
			n.gone(int32(native.Uint32(info[4:])))
		}
		b = b[min(align(size), len(b)):]
	}
}

// expect returns a channel that is closed when the link is gone.
func (n *notices) expect(index int32) chan struct{} {
	gone := make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting[index] = append(n.waiting[index], gone)
	return gone
}

// forget ends an expectation, met or not.
func (n *notices) forget(index int32, gone chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest := slices.DeleteFunc(n.waiting[index], func(c chan struct{}) bool { return c == gone })
	if len(rest) == 0 {
		delete(n.waiting, index)
		return
	}
	n.waiting[index] = rest
}

func (n *notices) gone(index int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.waiting[index] {
		close(c)
	}
	delete(n.waiting, index)
}

// close ends the reader.
func (n *notices) close() error {
	err := n.nl.Close()
	<-n.done
	return err
}
