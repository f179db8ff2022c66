package native

import "strings"

// attemptError is what went wrong with an attempt to make something, in words that are the same for the next attempt: without the IDs that
// only this one had. An event whose message differs each time would be another one each time.
type attemptError struct {
	err error
	ids []string
}

func (e *attemptError) Error() string {
	text := e.err.Error()
	for _, id := range e.ids {
		text = strings.ReplaceAll(text, id+"/", "")
		text = strings.ReplaceAll(text, id, "…")
	}
	return text
}

func (e *attemptError) Unwrap() error { return e.err }
