// Package kernel makes states of package netstate real on Linux, compares them with
// what is there, removes them and collects what nobody owns any more.
//
// It speaks to the kernel by messages of its own: rtnetlink in batches over kept sockets, nft in
// one transaction a call. It moves no thread: a socket is bound to its
// namespace when it is opened, and package netns writes the values below /proc/sys. It starts no process but for
// what a state has in iptables, which is spoken to by the programs that the machine has for it.
//
// What it leaves out: leases, which package leases keeps, and links of kinds that need a driver's own options.
//
// # Whose is it
//
// A link that this package makes on the host for an owner carries the owner's comment as its alias, set
// together with "up". A link with somebody else's alias, or none, is never changed or removed: one of
// the same name is netstate.ErrExist. The one exception is a link whose name is the hash of the owner
// and that has no alias: it is what a killed attempt left behind. Until the alias is set the link is in a group of
// its network's, by which Collect finds it. A shared object belongs to nobody
// from the moment it is there; it is not undone when a later step of the call that made it fails,
// since others may use it by then.
//
// # iptables
//
// A call works on each family by one iptables-save and one iptables-restore --noflush computed from
// what was printed; if that fails and the tables have changed meanwhile it begins anew. A rule is known by its comment:
// whose it is, a digest of its text, and what proves that its owner is alive. What only one attachment can have is a chain, made by a
// command that fails if the chain is there. A legacy program waits for the lock of its kind no longer than
// the context lasts, and the error names the holder.
//
// # Undo
//
// Every step of Apply that changed something notes how to take it back. When a later step fails the notes are run in
// reverse, and only what this call made is touched.
package kernel
