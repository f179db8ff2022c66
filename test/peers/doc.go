// Package peers holds Cleat against the reference stack: our plugins under its runtime, its
// plugins under ours, state written by one and read by the other. The tests need the build tag peers, root's sandbox, and
// CLEAT_PEERS, the folder that scripts/peers fills; `make interop` gives all three.
package peers
