package cli

import (
	"context"
	"github.com/cleat-cni/cleat/internal/output"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// logHandler writes messages: as lines of JSON, or for a person.
func logHandler(w io.Writer, level slog.Level, asJSON bool) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if asJSON {
		return slog.NewJSONHandler(w, opts)
	}
	// A person knows what time it is.
	opts.ReplaceAttr = func(groups []string, at slog.Attr) slog.Attr {
		if len(groups) == 0 && at.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return at
	}
	return &blockHandler{Handler: slog.NewTextHandler(w, opts), w: w, mu: &sync.Mutex{}}
}

// blockHandler puts values of several lines, such as a state, below the line of their message.
type blockHandler struct {
	slog.Handler
	w  io.Writer
	mu *sync.Mutex // keeps a message and its block together
}

// Handle writes a message.
func (h *blockHandler) Handle(ctx context.Context, r slog.Record) error {
	short := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	var block strings.Builder
	r.Attrs(func(at slog.Attr) bool {
		text := at.Value.String()
		if at.Value.Kind() != slog.KindString || !strings.Contains(text, "\n") {
			short.AddAttrs(at)
			return true
		}
		for line := range strings.Lines(text) {
			block.WriteString("  " + output.Printable(strings.TrimSuffix(line, "\n")) + "\n")
		}
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.Handler.Handle(ctx, short); err != nil {
		return err
	}
	_, err := io.WriteString(h.w, block.String())
	return err
}

// WithAttrs and WithGroup keep what they return a blockHandler.
func (h *blockHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &blockHandler{Handler: h.Handler.WithAttrs(attrs), w: h.w, mu: h.mu}
}

func (h *blockHandler) WithGroup(name string) slog.Handler {
	return &blockHandler{Handler: h.Handler.WithGroup(name), w: h.w, mu: h.mu}
}
