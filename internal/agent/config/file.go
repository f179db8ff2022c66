package config

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/cleat-cni/cleat/internal/agent/manifest"
)

const (
	// settle is how long files must be quiet after a change: a write in place has several steps.
	settle = 20 * time.Millisecond
	// settleAtMost bounds the wait, for a folder in which somebody writes all the time.
	settleAtMost = time.Second
	// soon is when to look again at a file that is being written: that it was closed is no event.
	soon = 100 * time.Millisecond
	// rewatch is when to look again at a path that can't be watched yet.
	rewatch = time.Second
)

// fileSource reads manifests from folders and files: when something changes there, and regularly.
type fileSource struct {
	files *files
	every time.Duration
	known map[string]bool // paths and files that were there at the last look
}

func newFileSource(cfg Config) *fileSource {
	var paths []string
	for _, p := range cfg.Paths {
		if p = filepath.Clean(p); !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return &fileSource{files: newFiles(paths, cfg.Node), every: cfg.FileCheck, known: map[string]bool{}}
}

func (s *fileSource) run(ctx context.Context, m *Mux) {
	var events chan fsnotify.Event
	var errs chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		m.log.WarnContext(ctx, "folders of manifests are not watched, only read regularly", "error", err)
	} else {
		defer watcher.Close()
		events, errs = watcher.Events, watcher.Errors
	}
	var last time.Time
	for {
		watched := watcher == nil || s.watch(watcher)
		now := time.Now()
		whole, changed := s.files.read(now)
		s.report(ctx, m)
		// The first set of a source allows that others are stopped, so it waits for a file that is just being written. What another source
		// kept out may come in later, so hand over the same pods again too.
		first := last.IsZero()
		if whole && !(first && s.files.busy()) && (first || changed || now.Sub(last) >= s.every) {
			m.merge(ctx, string(manifest.File), s.files.pods())
			last = now
		}
		wait := s.every
		if !watched {
			wait = min(wait, rewatch)
		}
		if s.files.busy() {
			wait = min(wait, soon)
		}
		if !s.await(ctx, wait, events, errs) {
			return
		}
	}
}

// report tells the mux what is wrong now, and what no longer is.
func (s *fileSource) report(ctx context.Context, m *Mux) {
	problems := s.files.problems()
	for name := range s.known {
		if _, ok := problems[name]; !ok {
			problems[name] = nil // it is gone
		}
	}
	clear(s.known)
	for name, err := range problems {
		m.problem(ctx, name, err)
		s.known[name] = true
	}
}

// watch watches every path, and reports whether it could. A folder that was removed and made again is another one; to watch what is
// watched already is nothing. A file is watched by its folder, since editors put another file in its place, and so is what isn't there yet.
func (s *fileSource) watch(w *fsnotify.Watcher) bool {
	all := true
	for _, path := range s.files.paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			path = filepath.Dir(path)
		}
		if err := w.Add(path); err != nil {
			all = false // the folder around it isn't there either, or the limit of watches is reached
		}
	}
	return all
}

// concerns reports whether a change is one of the manifests, and not of what lies beside a file.
func (s *fileSource) concerns(e fsnotify.Event) bool {
	return slices.ContainsFunc(s.files.paths, func(p string) bool { return e.Name == p || filepath.Dir(e.Name) == p })
}

// await waits until it is time for another look; false is the end of ctx.
func (s *fileSource) await(ctx context.Context, wait time.Duration, events <-chan fsnotify.Event, errs <-chan error) bool {
	again := time.NewTimer(wait)
	defer again.Stop()
	for changed := false; !changed; {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
			return true
		case <-errs: // events may be lost
			return true
		case e := <-events:
			changed = s.concerns(e)
		}
	}
	quiet, enough := time.NewTimer(settle), time.NewTimer(settleAtMost)
	defer quiet.Stop()
	defer enough.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-quiet.C:
			return true
		case <-enough.C:
			return true
		case <-events:
			quiet.Reset(settle)
		}
	}
}
