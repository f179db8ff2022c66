#!/bin/sh
# Runs a command in network and mount namespaces of its own, with an empty
# /run/netns and /var/lib/cni, and without the system's message bus, so that kernel tests never touch the host's:
#
#	go test -exec "$PWD/sandbox.sh" ./internal/kernel
#
# As root it needs nothing more; as another user it also makes a user namespace. With CLEAT_SANDBOX_PIDS=1 the command also
# has a process namespace of its own: whatever it leaves running ends with it.
set -eu
flags=-nm
[ "$(id -u)" = 0 ] || flags=-Urnm
[ "${CLEAT_SANDBOX_PIDS:-}" != 1 ] || flags="$flags --pid --fork --kill-child --mount-proc"
# shellcheck disable=SC2016,SC2086
exec unshare $flags --propagation private -- sh -c '
	set -eu
	for dir in /run/netns /run/cleat /var/lib/cni; do
		mkdir -p "$dir" 2>/dev/null || true
		[ -d "$dir" ] && mount -t tmpfs -o mode=0755 tmpfs "$dir"
	done
	[ ! -d /run/dbus ] || mount -t tmpfs -o mode=0755 tmpfs /run/dbus
	unset DBUS_SYSTEM_BUS_ADDRESS
	ip link set lo up
	export CLEAT_SANDBOX=1
	[ "${CLEAT_SANDBOX_PIDS:-}" = 1 ] || exec "$@"
	"$@" || exit # the shell is the first process of the namespace and takes in orphans
' sandbox "$@"
