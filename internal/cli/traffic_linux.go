package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/internal/netns"
)

// traffic reads how many bytes an interface of a namespace has received and sent.
func traffic(path, ifName string) (rx, tx uint64, err error) {
	ns, err := netns.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer ns.Close()
	var text []byte
	if err := ns.Do(func() error {
		text, err = os.ReadFile("/proc/thread-self/net/dev")
		return err
	}); err != nil {
		return 0, 0, fmt.Errorf("read counters of %s: %w", ifName, err)
	}
	rx, tx, ok := parseTraffic(string(text), ifName)
	if !ok {
		return 0, 0, fmt.Errorf("read counters of %s: no such interface", ifName)
	}
	return rx, tx, nil
}

// parseTraffic finds the two counters of bytes in the text of /proc/net/dev.
func parseTraffic(text, ifName string) (rx, tx uint64, ok bool) {
	for line := range strings.Lines(text) {
		name, rest, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(name) != ifName {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 9 {
			return 0, 0, false
		}
		rx, errRX := strconv.ParseUint(fields[0], 10, 64)
		tx, errTX := strconv.ParseUint(fields[8], 10, 64)
		return rx, tx, errRX == nil && errTX == nil
	}
	return 0, 0, false
}
