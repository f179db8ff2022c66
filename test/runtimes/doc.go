// Package runtimes holds Cleat under real container runtimes, those of Debian: containerd with runc, driven by the Container Runtime
// Interface, and podman with its CNI backend. Each test has a machine of its own to the runtime: namespaces for network, mounts and
// processes, and state folders that are empty; images are made on the spot. The tests need the build tag peers, root's sandbox with
// CLEAT_SANDBOX_PIDS=1, and CLEAT_PEERS, the folder that scripts/peers fills; `make interop` gives all of it.
package runtimes
