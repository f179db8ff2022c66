#!/bin/sh
# Runs a command as root in a machine with a kernel of its own: user-mode Linux, 6.1, with control groups of version 2 alone and with the
# link types that other kernels may lack. The machine has this one's files, and can't change them; /dev, /run, /var/lib and $TMPDIR are
# its own.
#
#	CGO_ENABLED=0 go test -exec "$PWD/uml.sh" ./internal/agent/cgroup
#
# It takes Debian's packages user-mode-linux and kmod, or a folder CLEAT_UML into which those were extracted (dpkg -x). It has
# CLEAT_UML_MEMORY (1G) and ends after CLEAT_UML_TIME seconds (600), at the latest. The race detector does not run there.
set -eu
from=${CLEAT_UML:-}
kernel=$from/usr/bin/linux.uml
kmod=$from/bin/kmod
[ -x "$kernel" ] && [ -x "$kmod" ] || {
	echo "uml.sh: no $kernel or no $kmod: apt-get install user-mode-linux kmod" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quoted() { # each argument as the shell reads it
	for arg in "$@"; do
		printf "'%s' " "$(printf %s "$arg" | sed "s/'/'\\\\''/g")"
	done
}
{
	export -p
	echo "export TMPDIR=/run/tmp CLEAT_SANDBOX=1"
	echo "cd $(quoted "$PWD")"
	echo "exec $(quoted "$@")"
} >"$work/command"
cat >"$work/init" <<-INIT
	#!/bin/sh
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin
	mount -t proc proc /proc
	mount -t sysfs sysfs /sys
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /var/lib
	mkdir -p /run/tmp /run/netns /run/work /run/bin /run/modules/lib/modules /var/lib/cni /dev/pts /dev/shm /dev/net
	mount -t devpts devpts /dev/pts
	mount -t tmpfs tmpfs /dev/shm
	mknod -m 666 /dev/net/tun c 10 200
	ln -s /proc/self/fd /dev/fd
	mount -t hostfs -o '$work' none /run/work
	ln -s '$from/usr/lib/uml/modules/'"\$(uname -r)" /run/modules/lib/modules/
	ln -s '$kmod' /run/bin/modprobe
	printf '#!/bin/sh\nexec /run/bin/modprobe -d /run/modules "\$@"\n' >/run/modprobe
	chmod +x /run/modprobe
	echo /run/modprobe >/proc/sys/kernel/modprobe
	/run/modprobe ipv6
	ip link set lo up
	sh /run/work/command </dev/null >/run/work/output 2>&1
	echo \$? >/run/work/status
	echo o >/proc/sysrq-trigger
	sleep 60
INIT
chmod +x "$work/init"
: >"$work/output"
timeout --kill-after=5 "${CLEAT_UML_TIME:-600}" \
	"$kernel" "mem=${CLEAT_UML_MEMORY:-1G}" root=/dev/root rootfstype=hostfs rootflags=/ ro "init=$work/init" \
	con=null con0=null,fd:1 quiet </dev/null >"$work/boot" 2>&1 &
machine=$!
trap 'kill $machine; wait $machine; cat "$work/output"; exit 1' INT TERM QUIT
wait $machine || true
cat "$work/output"
[ -s "$work/status" ] || {
	echo "uml.sh: the machine ended before the command did" >&2
	cat "$work/boot" >&2
	exit 1
}
exit "$(cat "$work/status")"
