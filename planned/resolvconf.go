package planned

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/cleat-cni/cleat/cni"
)

// maxResolvConf is how many bytes a file may have: some, as /dev/urandom, have no end.
const maxResolvConf = 1 << 20

// readResolvConf reads the DNS settings of a resolv.conf file (resolv.conf(5)).
func readResolvConf(path string) (cni.DNS, error) {
	// Without the flag the opening of a FIFO waits for a writer, whatever the context says.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return cni.DNS{}, cni.Errorf(cni.CodeIO, "read ipam.resolvConf: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Mode()&fs.ModeNamedPipe != 0 {
		return cni.DNS{}, cni.Errorf(cni.CodeIO, "read ipam.resolvConf: %w", cmp.Or(err, fmt.Errorf("%s: a FIFO, not a file", path)))
	}
	bounded := &io.LimitedReader{R: f, N: maxResolvConf}
	dns, err := parseResolvConf(bounded)
	if err == nil && bounded.N <= 0 {
		err = fmt.Errorf("more than %d KiB", maxResolvConf>>10)
	}
	if err != nil {
		return cni.DNS{}, cni.Errorf(cni.CodeIO, "read ipam.resolvConf: %w", fmt.Errorf("%s: %w", path, err))
	}
	return dns, nil
}

// parseResolvConf gathers the values of all lines, as the reference plugin does; the last domain counts.
func parseResolvConf(text io.Reader) (cni.DNS, error) {
	var dns cni.DNS
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			dns.Nameservers = append(dns.Nameservers, fields[1])
		case "domain":
			dns.Domain = fields[1]
		case "search":
			dns.Search = append(dns.Search, fields[1:]...)
		case "options":
			dns.Options = append(dns.Options, fields[1:]...)
		}
	}
	return dns, lines.Err()
}
