package reliability

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cleat-cni/cleat/internal/filelock"
	"github.com/cleat-cni/cleat/internal/leaktest"
)

// The roles that this program is started in by itself.
const (
	roleKey     = "CLEAT_RELIABILITY_ROLE"
	roleWorker  = "worker"  // does jobs
	roleHolder  = "holder"  // holds the lock that is its argument
	roleWatched = "watched" // does one job, and lets its file operations be watched
)

var (
	every  = flag.Bool("reliability.every", false, "let the deadline pass at every point, not at a sample of them")
	rounds = flag.Int("reliability.rounds", 1, "how many rounds of 60 cold ADDs, 16 at a time")
	pairs  = flag.Int("reliability.soak", 40, "how many pairs of ADD and DEL the soak makes")
	walks  = flag.Int("reliability.walks", 2, "how many random walks the model is held against, for each kind of processes")
	steps  = flag.Int("reliability.steps", 40, "how many steps a random walk has")
	seed   = flag.Uint64("reliability.seed", 0, "what decides everything that is random; 0 is another one each time")
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleKey); role {
	case "":
		leaktest.Main(m)
	case roleWorker:
		exit(work())
	case roleHolder:
		exit(holdLock(os.Args[1]))
	case roleWatched:
		exit(workWatched())
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

// holdLock is the role holder: it ends with its standard input.
func holdLock(path string) error {
	l, err := filelock.Acquire(context.Background(), path)
	if err != nil {
		return err
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1)) // however it ends
	return l.Release()
}

// random is the source of what is random in a test; how to get the same again is logged.
func random(t *testing.T, stream uint64) *rand.Rand {
	n := *seed
	if n == 0 {
		n = rand.Uint64()
	}
	t.Logf("-reliability.seed=%d", n)
	return rand.New(rand.NewPCG(n, stream))
}
