// Package netns opens, makes and enters network namespaces. It is the only place
// that moves an OS thread into another namespace: [Handle.Do] runs a function on a
// thread that no other goroutine has meanwhile, and that goes back or ends, so no caller
// ever runs in a namespace it did not ask for.
//
// On systems without network namespaces every function returns
// errors.ErrUnsupported.
package netns
