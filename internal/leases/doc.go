// Package leases keeps on disk which address is whose, in the layout that the
// reference host-local plugin reads and writes, so that either can take over from the
// other, and both can run at once: they take the same lock.
//
// A network's folder <dataDir>/<network> holds one file an address
// (<id>\r\n<ifname>), last_reserved_ip.<n> for each set of ranges, and lock. All else
// stands in <dataDir>/.cleat/<network>, since the reference's DEL and GC walk the first folder
// and remove what they do not know:
//
//   - boot_id, the boot in which the folder was last used;
//   - index, a hash table of owners and their addresses, so that nobody has to read every
//     file to find one owner's, and in its header in what condition the network's folder was when
//     it agreed with the table;
//   - new and swap, names of a file while it is being made;
//   - spare-<n>, files of leases that ended, to be used again.
//
// A lease appears whole or not at all: it is written as new and linked into place. The
// leases of one ADD are links to one file, so if the writer is killed the next one knows by
// the file that is left under new which leases belong to an ADD that nobody got an answer to, and
// undoes it.
//
// The index is a hint. It is believed only while its header tells that nobody else has
// changed the folder, and even then the lease file itself is read before anything is said or
// done about it; else the folder is read once and the index is made anew.
//
// Nothing here is synced to the disk: what a power cut leaves half written is of an
// earlier boot, and such leases are void unless a record names a living namespace.
package leases
