package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/monitor"
	"github.com/cleat-cni/cleat/internal/ownfile"
)

// followEvery is how often a log that is followed is looked at.
const followEvery = 100 * time.Millisecond

// maxLog bounds what is read of a file that was put aside: four times what the agent lets a log grow to.
const maxLog = 40 << 20

// logs answers with what a container printed: query container, previous (the one before the last restart), tail (lines from the end),
// timestamps, follow.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	pod, err := s.find(r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	q := r.URL.Query()
	name, err := containerOf(pod, q.Get("container"))
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	path, _, err := s.cfg.Logs(r.Context(), pod.UID, name, q.Get("previous") == "true")
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	tail := -1
	if text := q.Get("tail"); text != "" {
		if tail, err = strconv.Atoi(text); err != nil || tail < 0 {
			refuse(w, http.StatusBadRequest, errors.New("tail is no number of lines"))
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p := &printer{w: w, stamps: q.Get("timestamps") == "true"}
	f, err := p.history(path, tail)
	if err != nil || f == nil {
		return // nothing was printed yet, or whoever asked is gone
	}
	defer func() { f.Close() }()
	if q.Get("follow") == "true" {
		f = s.follow(r.Context(), p, f, follow{pod, name, path})
	}
}

// printer writes lines of a log as the container printed them.
type printer struct {
	w      io.Writer
	stamps bool
	begun  bool // a line that goes on
}

// line writes one line of the CRI's format: time, stream, tag, text.
func (p *printer) line(line string) error {
	f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
	if len(f) < 4 {
		return nil
	}
	text := f[3]
	if p.stamps && !p.begun {
		text = f[0] + " " + text
	}
	if p.begun = f[2] == "P"; !p.begun {
		text += "\n"
	}
	_, err := io.WriteString(p.w, text)
	return err
}

// history prints what is there, also in files that were put aside, and returns the open file at its end; nil if there is none.
func (p *printer) history(path string, tail int) (*os.File, error) {
	f, err := ownfile.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, old := range monitor.Rotated(path) {
		text, err := ownfile.Read(old, maxLog)
		if err != nil {
			continue // it has just been removed, or somebody else made it
		}
		lines = append(lines, slices.Collect(strings.Lines(string(text)))...)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	lines = append(lines, slices.Collect(strings.Lines(string(text)))...)
	if tail >= 0 && len(lines) > tail {
		lines = lines[len(lines)-tail:]
	}
	for _, l := range lines {
		if err := p.line(l); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// follow is a log that is followed.
type follow struct {
	pod       *v1.Pod
	container string
	path      string
}

// follow prints what comes until the container ends or nobody listens any more. It returns the file that is open then.
func (s *Server) follow(ctx context.Context, p *printer, f *os.File, what follow) *os.File {
	out := http.NewResponseController(p.w.(http.ResponseWriter))
	r := bufio.NewReader(f)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	rest := ""
	for {
		_, running, err := s.cfg.Logs(ctx, what.pod.UID, what.container, false)
		ended := err != nil || !running // asked first, so that nothing is printed after the last look
		for {
			text, err := r.ReadString('\n')
			rest += text
			if err != nil {
				break
			}
			if p.line(rest) != nil {
				return f
			}
			rest = ""
		}
		if next := renewed(f, what.path); next != nil {
			f.Close()
			f, rest = next, ""
			r.Reset(f)
			continue
		}
		if out.Flush() != nil || ended {
			return f
		}
		select {
		case <-ctx.Done():
			return f
		case <-tick.C:
		}
	}
}

// renewed opens the file at path if it is another one than f: that was put aside, and all of it is read.
func renewed(f *os.File, path string) *os.File {
	old, err := f.Stat()
	if err != nil {
		return nil
	}
	now, err := os.Stat(path)
	if err != nil || os.SameFile(old, now) {
		return nil
	}
	next, err := ownfile.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	return next
}
