package config

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// beingWritten reports whether somebody has a file open for writing. The kernel grants a lease for reading only while nobody has; where
// there are no leases (network file systems, files of other users without CAP_LEASE) the answer is no. A writer that comes
// while the lease is held waits for the microseconds until it is given back.
func beingWritten(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	busy := false
	if err := conn.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
		busy = errors.Is(err, unix.EAGAIN)
		if err == nil {
			// Closing the file would give it back too.
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	}); err != nil {
		return false
	}
	return busy
}
