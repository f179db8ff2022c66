package plugintest

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/planned"
)

// world is what a plugin acts in: a host and pods.
type world interface {
	kernel() planned.Kernel
	memory() bool
	newPod() (path string, err error)
	removePod(path string) error
	dump(path string) (string, error) // of the namespace at path, or of the host
	onHost(f func() error) error      // runs f as a program of the host
}

// newWorld makes a world that ends with the test.
func newWorld(t testing.TB, scratch bool) world {
	if scratch {
		return newScratch(t)
	}
	w := &inMemory{failAt: -1}
	w.Memory = kerneltest.NewMemory(kerneltest.Config{Fault: w.fault})
	return w
}

// inMemory is a world on a kernel in memory.
type inMemory struct {
	*kerneltest.Memory
	steps  []string // what was done since the last reset
	failAt int      // the step that fails; negative is none
}

var errFault = errors.New("fault made by the test")

func (w *inMemory) fault(step string) error {
	w.steps = append(w.steps, step)
	if len(w.steps)-1 == w.failAt {
		return errFault
	}
	return nil
}

// arm makes a later step fail, counted from now.
func (w *inMemory) arm(step int) { w.steps, w.failAt = nil, step }

func (w *inMemory) kernel() planned.Kernel           { return w.Memory }
func (w *inMemory) memory() bool                     { return true }
func (w *inMemory) newPod() (string, error)          { return w.NewPod(), nil }
func (w *inMemory) removePod(path string) error      { return w.RemovePod(path) }
func (w *inMemory) dump(path string) (string, error) { return w.DumpOf(path) }
func (w *inMemory) onHost(f func() error) error      { return f() }

// hasLine reports whether a line of text begins with want.
func hasLine(text, want string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, want) {
			return true
		}
	}
	return false
}
