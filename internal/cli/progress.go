package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"
)

const (
	barAfter  = time.Second // work that is done by then shows nothing
	lineEvery = 5 * time.Second
)

// progress says on standard error how far long work is: on a terminal by a bar, elsewhere by a line every few
// seconds.
type progress struct {
	w     io.Writer
	log   *slog.Logger // instead of w, with --json-log
	now   func() time.Time
	what  string
	total int
	done  int
	bar   bool
	drawn bool
	next  time.Time
}

// progress begins to tell about total steps of work.
func (a *app) progress(what string, total int) *progress {
	p := &progress{w: a.cfg.Stderr, now: a.cfg.Now, what: what, total: total, bar: !a.jsonLog && isTerminal(a.cfg.Stderr)}
	if a.jsonLog {
		p.log = slog.New(logHandler(a.cfg.Stderr, slog.LevelInfo, true))
	}
	p.next = p.now().Add(lineEvery)
	if p.bar {
		p.next = p.now().Add(barAfter)
	}
	return p
}

// step says that one more step is done.
func (p *progress) step() {
	p.done++
	now := p.now()
	if now.Before(p.next) {
		return
	}
	switch {
	case p.bar:
		const width = 30
		full := width * p.done / max(p.total, 1)
		fmt.Fprintf(p.w, "\r%s [%s%s] %d/%d", p.what, strings.Repeat("#", full), strings.Repeat(".", width-full), p.done, p.total)
		p.drawn, p.next = true, now.Add(100*time.Millisecond)
	case p.log != nil:
		p.log.Info(p.what, "done", p.done, "total", p.total)
		p.next = now.Add(lineEvery)
	default:
		fmt.Fprintf(p.w, "%s: %d of %d\n", p.what, p.done, p.total)
		p.next = now.Add(lineEvery)
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// isTerminal reports whether w is a device that shows characters.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}
