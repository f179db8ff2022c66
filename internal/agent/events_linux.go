package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cleat-cni/cleat/internal/agent/status"
	"github.com/cleat-cni/cleat/internal/atomicfile"
	"github.com/cleat-cni/cleat/internal/ownfile"
)

// eventLog keeps the events of a recorder in a file, so that they outlive the agent: what happened before is what somebody wants to know
// who finds that it was started anew.
type eventLog struct {
	path     string
	recorder *status.Recorder
	log      *slog.Logger
}

const (
	// eventDelay is how long events are gathered before they are written. An agent that is killed loses those.
	eventDelay = 2 * time.Second
	// maxEventFile bounds what is read: 1,000 events with messages of 16 KiB.
	maxEventFile = 16 << 20
)

// load reads what an earlier agent noted. That it can't be read is no reason not to start.
func (e *eventLog) load() {
	data, err := ownfile.Read(e.path, maxEventFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var events []status.Event
	if err == nil {
		err = json.Unmarshal(data, &events)
	}
	if err != nil {
		e.log.Warn("what happened before is not known", "error", fmt.Errorf("read %s: %w", e.path, err))
		return
	}
	e.recorder.Restore(events)
}

// run writes events down until ctx ends, and then once more.
func (e *eventLog) run(ctx context.Context) {
	for {
		news := e.recorder.News() // before they are written: what comes meanwhile is written next
		e.save()
		select {
		case <-ctx.Done():
			e.save()
			return
		case <-news:
		}
		gather := time.NewTimer(eventDelay)
		select {
		case <-ctx.Done():
		case <-gather.C:
		}
		gather.Stop()
	}
}

func (e *eventLog) save() {
	data, err := json.Marshal(e.recorder.Events(""))
	if err == nil {
		err = atomicfile.Write(e.path, data, 0o600)
	}
	if err != nil {
		e.log.Warn("events are not written down", "error", err)
	}
}
