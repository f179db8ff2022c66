// Package pause is the process that holds a pod's namespaces: it is started in them, and does nothing but wait until it is told to
// end. As process 1 of the pod's PID namespace it reaps whatever is left to it.
package pause

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/agent/spawn"
)

// Name is what cleat-cni is called as to be the pause process.
const Name = "pause"

// Args returns the arguments, without the name, of a pause process that sets its hostname, unless that is "", and settings of the
// kernel such as net.core.somaxconn=500, which count in its namespaces.
func Args(hostname string, sysctls []string) []string {
	return append([]string{hostname}, sysctls...)
}

// Main is the process. It returns its exit status.
func Main(args []string) int {
	if err := run(args); err != nil {
		fmt.Fprintf(os.Stderr, "pause: %v\n", err)
		return 1
	}
	return 0
}

func run(args []string) error {
	// Before anything else: process 1 of a namespace ignores what it has no handler for.
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, unix.SIGTERM, unix.SIGINT)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	if len(args) > 0 {
		if err := settle(args[0], args[1:]); err != nil {
			return err
		}
	}
	if err := spawn.Await(); err != nil {
		return err
	}
	for {
		select {
		case <-ends:
			return nil
		case <-children:
			reap()
		}
	}
}

// settle makes the namespaces as the pod wants them.
func settle(hostname string, sysctls []string) error {
	if hostname != "" {
		if err := unix.Sethostname([]byte(hostname)); err != nil {
			return fmt.Errorf("set hostname %s: %w", hostname, err)
		}
	}
	for _, s := range sysctls {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("set %s: no value", s)
		}
		file := filepath.FromSlash(strings.ReplaceAll(key, ".", "/"))
		if !filepath.IsLocal(file) {
			return fmt.Errorf("set %s: no setting of the kernel", key)
		}
		path := filepath.Join("/proc/sys", file)
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return fmt.Errorf("set %s: %w", key, err)
		}
	}
	return nil
}

// reap takes all children that have ended.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
