// Package cli is the command line of cleat: one file a command. It reads
// arguments, asks package libcni to do the work, and prints the outcome for a person or, with -o
// json or yaml, for a program. Results go to standard output, everything else to standard error.
//
// It knows plugins only through the runner that cmd/cleat wires, and the
// kernel not at all.
package cli
