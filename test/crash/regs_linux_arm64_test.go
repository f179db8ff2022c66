package crash

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// auditArch is what a seccomp filter sees of calls made in the usual way (linux/audit.h).
const auditArch = unix.AUDIT_ARCH_AARCH64

// callInstruction enters the kernel: svc #0.
const callInstruction = "\x01\x00\x00\xd4"

// The register sets (linux/elf.h): all in general, and the number of the system call.
const (
	ntPrStatus      = 1
	ntARMSystemCall = 0x404
)

// registers are those of a stopped thread.
type registers struct{ regs unix.PtraceRegsArm64 }

func registersOf(tid int) (r registers, err error) {
	return r, unix.PtraceGetRegSetArm64(tid, ntPrStatus, &r.regs)
}
func (r *registers) set(tid int) error { return unix.PtraceSetRegSetArm64(tid, ntPrStatus, &r.regs) }
func (r *registers) stack() uint64     { return r.regs.Sp }
func (r *registers) next() uint64      { return r.regs.Pc }
func (r *registers) result() int64     { return int64(r.regs.Regs[0]) }

// calling are the registers for a system call: its number and three arguments.
func (r registers) calling(call [4]uint64) registers {
	r.regs.Regs[8] = call[0]
	copy(r.regs.Regs[:], call[1:])
	return r
}

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
	r, err := registersOf(tid)
	if err != nil {
		return err
	}
	r.regs.Regs[0] = uint64(-int64(errno))
	return r.set(tid)
}
