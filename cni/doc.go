// Package cni is the Container Network Interface specification as Go types:
// versions and their negotiation, network and plugin configuration, the
// result of an ADD, the error object, CNI_ARGS, capabilities and the rules
// for names. It reads and writes every specification version from 0.1.0 to
// 1.1.0.
//
// The package is pure data: it opens no file, dials nothing, reads no clock
// and no environment. Running plugins is the business of package libcni,
// writing one that of packages plugin and planned.
//
// A fault in a configuration or a result is a [SyntaxError]: line, column, the
// path of the key, and what to write instead. All other errors are an [Error],
// with the code that the specification gives them.
//
// What the specification leaves to others passes through untouched: a member
// that this package does not know is kept as the bytes it was read from, in
// the order it was read in, and written back so (see [Object]).
package cni
