// Package leaktest holds the process of a package's tests to leaving nothing behind. What it has once all tests are done
// and it did not have before is a failure that is named:
//
//   - descriptors, by what they are open for;
//   - goroutines, by their stacks, and with them the threads that they hold;
//   - threads that are in another network namespace;
//   - processes that it started, also ended ones that nobody waited for;
//   - memory, if the live heap grew by more than 16 MiB;
//   - files in its folder for temporary ones, and, in the sandbox, named namespaces and state;
//   - network interfaces of its own namespace.
//
// Threads without work are not counted: the runtime of Go keeps them.
package leaktest

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Main runs a package's tests and ends the process, for its TestMain. Of what is left, stays is right: it is listed as it would be
// reported. A process that a test starts of its own program is not held to anything: it may be one that is to be killed.
func Main(m *testing.M, stays ...string) {
	temp, child, err := ownTemp()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if child {
		os.Exit(m.Run())
	}
	const settling = 5 * time.Second
	code, left := run(m.Run, settling, stays)
	if temp != "" {
		left = append(left, emptied(temp)...)
	}
	for _, l := range left {
		fmt.Fprintln(os.Stderr, "left behind:", l)
	}
	if code == 0 && len(left) > 0 {
		code = 1
	}
	os.Exit(code)
}

// run runs f and returns its status and what it left. What is about to end may take settling for it.
func run(f func() int, settling time.Duration, stays []string) (code int, left []string) {
	warmUp()
	before := look()
	before.things = append(before.things, stays...)
	code = f()
	left = difference(before, look())
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(settling); len(left) > 0 && time.Now().Before(end); <-tick.C {
		left = difference(before, look())
	}
	return code, left
}

// emptied removes a folder and says what was in it.
func emptied(dir string) []string {
	var left []string
	for _, name := range list(dir) {
		left = append(left, "file "+name)
	}
	if err := os.RemoveAll(dir); err != nil {
		left = append(left, err.Error())
	}
	return left
}

// warmUp has the runtime open what it opens once and keeps: its poller.
func warmUp() {
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
}

// holdings are what a process has.
type holdings struct {
	things []string // each begins with its kind
	heap   uint64   // bytes
}

func look() holdings {
	h := holdings{things: append(goroutines(), processThings()...)}
	if links, err := net.Interfaces(); err == nil {
		for _, l := range links {
			h.things = append(h.things, "interface "+l.Name)
		}
	}
	if os.Getenv("CLEAT_SANDBOX") != "" {
		for _, dir := range []string{"/run/netns", "/var/lib/cni"} {
			for _, name := range list(dir) {
				h.things = append(h.things, "file "+name)
			}
		}
	}
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	h.heap = mem.HeapAlloc
	return h
}

// growth is what the live heap may grow by, in bytes: caches, and what the tests themselves keep.
const growth = 16 << 20

// difference lists what the process has more than before.
func difference(before, after holdings) []string {
	count := map[string]int{}
	for _, t := range before.things {
		count[t]++
	}
	var left []string
	for _, t := range after.things {
		if count[t]--; count[t] < 0 {
			left = append(left, t)
		}
	}
	if after.heap > before.heap+growth {
		left = append(left, fmt.Sprintf("memory: the heap grew by %d KiB", (after.heap-before.heap)>>10))
	}
	slices.Sort(left)
	return left
}

// goroutines lists the stacks of all goroutines but this one and that of os/signal, which never ends.
func goroutines() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var list []string
	for i, text := range strings.Split(string(buf), "\n\n") {
		if i == 0 || strings.Contains(text, "os/signal.signal_recv") {
			continue
		}
		_, stack, _ := strings.Cut(text, ":\n") // its number and state
		list = append(list, "goroutine\n"+strings.TrimSpace(stack))
	}
	return list
}

// list names the files and empty folders below dir.
func list(dir string) []string {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != dir {
			names = append(names, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		names = append(names, err.Error())
	}
	return names
}
