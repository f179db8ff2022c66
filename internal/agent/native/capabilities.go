package native

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// capabilityNames are the names of capabilities by number (capabilities(7), Linux 5.9).
func capabilityNames() []string {
	return strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
		NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
		SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL
		SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)
}

// boundingSet lists what this process and its children may have at most, as CAP_CHOWN and so on.
func boundingSet() ([]string, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	return parseBoundingSet(string(data))
}

func parseBoundingSet(status string) ([]string, error) {
	for line := range strings.Lines(status) {
		text, ok := strings.CutPrefix(line, "CapBnd:")
		if !ok {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("read the bounding set: %w", err)
		}
		var list []string
		for i, name := range capabilityNames() {
			if bits>>i&1 == 1 {
				list = append(list, "CAP_"+name)
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("read the bounding set: /proc/self/status has none")
}
