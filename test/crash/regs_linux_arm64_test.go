package crash

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ntARMSystemCall is the register set that holds the number of the system call (linux/elf.h).
const ntARMSystemCall = 0x404

// skipCall makes the system call that tid is about to enter none.
func skipCall(tid int) error {
	nr := int32(-1)
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&nr)), Len: uint64(unsafe.Sizeof(nr))}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SETREGSET, uintptr(tid), ntARMSystemCall, uintptr(unsafe.Pointer(&iov)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// setResult makes the system call that tid is about to leave return an error.
func setResult(tid int, errno unix.Errno) error {
	var regs unix.PtraceRegsArm64
	if err := unix.PtraceGetRegSetArm64(tid, 1, &regs); err != nil {
		return err
	}
	regs.Regs[0] = uint64(-int64(errno))
	return unix.PtraceSetRegSetArm64(tid, 1, &regs)
}
