// Package netns opens, makes and enters network namespaces. It is the only place
// that moves an OS thread into another namespace: [Handle.Do] runs a function on a
// thread of its own, which ends with it, so no caller ever runs in a namespace it
// did not ask for. Sockets bound to a namespace need no thread: they take
// [Handle.FD].
//
// On systems without network namespaces every function returns
// errors.ErrUnsupported.
package netns
