package crash

import "golang.org/x/sys/unix"

// auditArch is what a seccomp filter sees of calls made in the usual way (linux/audit.h).
const auditArch = unix.AUDIT_ARCH_X86_64

// callInstruction enters the kernel: syscall.
const callInstruction = "\x0f\x05"

// registers are those of a stopped thread.
type registers struct{ regs unix.PtraceRegs }

func registersOf(tid int) (r registers, err error) { return r, unix.PtraceGetRegs(tid, &r.regs) }
func (r *registers) set(tid int) error             { return unix.PtraceSetRegs(tid, &r.regs) }
func (r *registers) stack() uint64                 { return r.regs.Rsp }
func (r *registers) next() uint64                  { return r.regs.Rip }
func (r *registers) result() int64                 { return int64(r.regs.Rax) }

// calling are the registers for a system call: its number and three arguments.
func (r registers) calling(call [4]uint64) registers {
	r.regs.Rax, r.regs.Rdi, r.regs.Rsi, r.regs.Rdx = call[0], call[1], call[2], call[3]
	r.regs.Orig_rax = ^uint64(0)
	return r
}

// skipCall makes the system call that tid is about to enter none.
func skipCall(tid int) error {
	r, err := registersOf(tid)
	if err != nil {
		return err
	}
	r.regs.Orig_rax = ^uint64(0)
	return r.set(tid)
}

// setResult makes the system call that tid is about to leave return an error.
func setResult(tid int, errno unix.Errno) error {
	r, err := registersOf(tid)
	if err != nil {
		return err
	}
	r.regs.Rax = uint64(-int64(errno))
	return r.set(tid)
}
