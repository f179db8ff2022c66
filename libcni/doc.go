// Package libcni is the runtime's side of the Container Network Interface: it loads network configurations,
// runs a network's plugins for each operation (ADD, DEL, CHECK, GC, STATUS, VERSION), and remembers which
// containers are attached to what.
//
// It knows a plugin only as something that can be run, a [Runner]. The default runs programs of the plugin folders.
//
// What is remembered is on disk. An intent, <state>/cleat/adding/<key>, is made before the first plugin of an ADD
// runs; when all have run it becomes the record, <state>/results/<network>-<container>-<interface>, in the format
// of the field's Go library, which reads ours as we read its. An ADD that fails is undone, and its intent goes;
// one that was killed leaves its intent, which a DEL or GC finds. Operations on one container exclude each other
// across processes, and GC excludes all others.
//
// What plugins say to one another passes through as they wrote it: the configuration, and the result of each,
// which is prevResult of the next.
package libcni
