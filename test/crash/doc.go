// Package crash kills and fails the programs at every system call that touches the kernel's
// network state or the disk, and holds that whatever follows (DEL, GC, another ADD, a reboot) leaves
// nothing behind and disturbs nobody else.
//
// Nothing in the programs helps: they are traced with ptrace, on amd64 and arm64, and a seccomp filter, which the tracer puts into them
// at their first instruction, stops them only at calls that may matter. A point is one such system call, counted
// over all threads and children of the program. At a point the process, or all of them, is killed before the call or after it; or the
// call does not happen and returns an error; or it hangs until the command's deadline is over and is then
// interrupted.
//
// The plugins run built in, as programs, and, where CLEAT_PEERS is the folder that scripts/peers builds, under the reference's runtime:
// then the follow-ups are done by that one's cnitool and by cleat.
//
// Each worker is a process with network and mount namespaces of its own, where /run/cleat, the boot id and the boot time
// are its own too. `make crash` runs everything; without flags a sample runs that takes some seconds.
package crash
