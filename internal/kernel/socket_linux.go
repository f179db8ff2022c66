package kernel

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a netlink socket that the Go runtime's poller does not watch: the kernel answers before a call that sends returns, so that
// there is nothing to wait for, and watching would wake a thread for each answer.
type socket int

// openSocket opens a socket of a protocol in the namespace of the calling thread, with options of SOL_NETLINK turned on. The error is the
// system call's.
func openSocket(protocol int, options ...int) (socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return -1, err
	}
	s := socket(fd)
	for _, o := range options {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, o, 1))
	}
	if err = errors.Join(err, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})); err != nil {
		s.close()
		return -1, err
	}
	return s, nil
}

func (s socket) close() error { return unix.Close(int(s)) }

// send sends a datagram, which the kernel executes before the call returns. One that is longer than the socket allows makes room first.
func (s socket) send(b []byte) error {
	_, err := unix.Write(int(s), b)
	if !errors.Is(err, unix.EMSGSIZE) {
		return err
	}
	if err := unix.SetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*len(b)); err != nil {
		return err
	}
	_, err = unix.Write(int(s), b)
	return err
}

// receive reads a datagram. Without one it is EAGAIN.
func (s socket) receive(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(s), b)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// wait returns when there is something to receive, or with ctx, whose cause is the error.
func (s socket) wait(ctx context.Context) error {
	fd, err := unix.FcntlInt(uintptr(s), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "netlink")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK)
		return n >= 0 && err == nil || !errors.Is(err, unix.EAGAIN)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
