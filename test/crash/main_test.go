//go:build linux && (amd64 || arm64)

package crash

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// The roles that this program is started in by itself.
const (
	roleKey    = "CLEAT_CRASH_ROLE"
	roleWorker = "worker" // does a share of the runs
	roleGC     = "gc"     // collects, as a runtime on top of libcni does
)

var (
	budget  = flag.Duration("crash.time", 10*time.Second, "how long the points may take; 0 is as long as all of them take")
	workers = flag.Int("crash.workers", 2, "how many worlds at once")
	kills   = flag.Int("crash.kills", 20, "how many kills at a random time")
	rounds  = flag.Int("crash.rounds", 1, "how many rounds of cold ADDs")
	seed    = flag.Uint64("crash.seed", 0, "what decides the order and the times; 0 is another one each time")
	which   = flag.String("crash.chains", "bridge", "the networks, separated by commas, or all")
	faulty  = flag.String("crash.faults", "all", "the faults, separated by commas, or all")
	only    = flag.String("crash.only", "", "run only the runs whose name holds this")
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleKey); role {
	case "":
		os.Exit(m.Run())
	case roleWorker:
		exit(work())
	case roleGC:
		exit(collectNetwork())
	default:
		exit(fmt.Errorf("unknown role %q", role))
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
