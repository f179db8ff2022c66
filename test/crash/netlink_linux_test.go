//go:build amd64 || arm64

package crash

import (
	"encoding/binary"
	"errors"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nobodysType is a type of netlink messages that neither rtnetlink nor nfnetlink knows.
const nobodysType = 0x7ffe

// spoil changes the type of one of the netlink messages that tid is about to send, so that the kernel refuses it.
func (t *tracer) spoil(tid int, info syscallInfo) error {
	at, size := info.Args[1], info.Args[2]
	if info.Nr == unix.SYS_SENDMSG {
		var err error
		if at, size, err = buffer(tid, at); err != nil {
			return err
		}
	}
	data, err := peek(tid, at, int(size))
	if err != nil {
		return err
	}
	var starts []int
	for off := 0; off+unix.NLMSG_HDRLEN <= len(data); {
		starts = append(starts, off)
		length := int(binary.NativeEndian.Uint32(data[off:]))
		if length < unix.NLMSG_HDRLEN {
			return errors.New("not netlink messages")
		}
		off += (length + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1)
	}
	off := 0
	switch n := len(starts); {
	case n == 0:
		return nil
	case t.fault.way == refuseMiddle:
		off = starts[n/2]
	case t.fault.way == refuseLast:
		off = starts[n-1]
		if n > 1 && binary.NativeEndian.Uint16(data[off+4:]) == unix.NFNL_MSG_BATCH_END {
			off = starts[n-2] // no kernel refuses the end of a transaction
		}
	}
	t.refused = binary.NativeEndian.Uint32(data[off+8:])
	typ := binary.NativeEndian.AppendUint16(nil, nobodysType)
	return poke(tid, at+uint64(off)+4, typ)
}

// asksRevision reports whether tid is about to ask, as the programs of iptables do by sendto, which revision of a match or target the
// kernel knows.
func asksRevision(tid int, info syscallInfo) bool {
	if info.Nr != unix.SYS_SENDTO || info.Args[2] < unix.NLMSG_HDRLEN {
		return false
	}
	header, err := peek(tid, info.Args[1], unix.NLMSG_HDRLEN)
	return err == nil && len(header) == unix.NLMSG_HDRLEN && binary.NativeEndian.Uint16(header[4:])>>8 == unix.NFNL_SUBSYS_NFT_COMPAT
}

// beforeReading has the call fail if it reads a socket and there is to be no answer, and remembers where the answer will
// be if its error is to be another.
func (t *tracer) beforeReading(tid int, info syscallInfo) error {
	if !t.deaf && t.refused == 0 {
		return nil
	}
	switch info.Nr {
	case unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_READ:
	default:
		return nil
	}
	if !strings.HasPrefix(descriptor(tid, info.Args[0]), "socket:") {
		return nil
	}
	t.inside[tid] = info.Nr
	if t.deaf {
		t.deaf = false
		t.failing[tid] = t.fault.errno
		return skipCall(tid)
	}
	at := info.Args[1]
	if info.Nr == unix.SYS_RECVMSG {
		var err error
		if at, _, err = buffer(tid, at); err != nil {
			return err
		}
	}
	t.reading[tid] = at
	return nil
}

// answer puts the fault's error into the answer to the spoilt message, which is n bytes at at.
func (t *tracer) answer(tid int, at uint64, n int64) error {
	if n < unix.NLMSG_HDRLEN+4 {
		return nil
	}
	data, err := peek(tid, at, int(n))
	if err != nil {
		return err
	}
	for off := 0; off+unix.NLMSG_HDRLEN+4 <= len(data); {
		length := int(binary.NativeEndian.Uint32(data[off:]))
		typ, seq := binary.NativeEndian.Uint16(data[off+4:]), binary.NativeEndian.Uint32(data[off+8:])
		if length < unix.NLMSG_HDRLEN {
			return nil
		}
		if typ == unix.NLMSG_ERROR && seq == t.refused && binary.NativeEndian.Uint32(data[off+unix.NLMSG_HDRLEN:]) != 0 {
			t.refused = 0
			return poke(tid, at+uint64(off+unix.NLMSG_HDRLEN), binary.NativeEndian.AppendUint32(nil, uint32(-int32(t.fault.errno))))
		}
		off += (length + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1)
	}
	return nil
}

// buffer is the first buffer of the struct msghdr at at.
func buffer(tid int, at uint64) (base, size uint64, err error) {
	var msg unix.Msghdr
	raw, err := peek(tid, at, int(unsafe.Sizeof(msg)))
	if err != nil {
		return 0, 0, err
	}
	iov := binary.NativeEndian.Uint64(raw[unsafe.Offsetof(msg.Iov):])
	if raw, err = peek(tid, iov, 16); err != nil {
		return 0, 0, err
	}
	return binary.NativeEndian.Uint64(raw), binary.NativeEndian.Uint64(raw[8:]), nil
}

// peek reads memory of the traced program.
func peek(tid int, at uint64, n int) ([]byte, error) {
	buf := make([]byte, n)
	if n == 0 {
		return buf, nil
	}
	got, err := unix.ProcessVMReadv(tid, []unix.Iovec{{Base: &buf[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
	return buf[:max(0, got)], err
}

// poke writes memory of the traced program, also what it can't write itself.
func poke(tid int, at uint64, data []byte) error {
	_, err := unix.PtracePokeData(tid, uintptr(at), data)
	return err
}
