package netns

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLostThreadEnds: a thread that can't go back is no other goroutine's.
func TestLostThreadEnds(t *testing.T) {
	var task string
	err := onThread(func() error {
		task = fmt.Sprintf("/proc/self/task/%d", unix.Gettid())
		goHome(-1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if _, err := os.Stat(task); err != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is still there", task)
		}
	}
}
