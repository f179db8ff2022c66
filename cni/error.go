package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Code is an error code of the specification; from 100 on it is the plugin's
// own.
type Code uint

// The codes of the specification (section "Error"), and two that the Go
// libraries of the field share though the specification does not list them:
// CodeInvalidNetNS and CodeInternal.
const (
	CodeIncompatibleVersion Code = 1
	CodeUnsupportedField    Code = 2
	CodeUnknownContainer    Code = 3
	CodeInvalidEnvironment  Code = 4
	CodeIO                  Code = 5
	CodeDecode              Code = 6
	CodeInvalidConfig       Code = 7
	CodeInvalidNetNS        Code = 8
	CodeTryAgain            Code = 11
	CodeNotAvailable        Code = 50
	CodeLimitedConnectivity Code = 51
	CodeInternal            Code = 999
)

// Error is the one shape of error here: what the specification prints, and
// where it happened and what to do about it.
type Error struct {
	CNIVersion string // of the request it answers
	Code       Code
	Msg        string // lower case, names the object and the cause
	Details    string
	Plugin     string // the plugin's type
	Verb       Verb
	Step       string // validate, ipam, plan, apply, …
	Hint       string // what to do
	Err        error  // the cause, for errors.Is and errors.As; not encoded
	// Extra are members of the error object that have no field here, such as the differences that a CHECK found.
	Extra map[string]json.RawMessage
}

// Errorf returns an error with a code. %w keeps the cause; of a cause that is an
// [*Error] also its details, plugin, verb, step and hint.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Msg: err.Error()}
	if inner, ok := errors.AsType[*Error](err); ok {
		e = outer(err, inner)
	}
	e.Code = code
	e.Err = errors.Unwrap(err)
	if _, several := err.(interface{ Unwrap() []error }); several {
		e.Err = err
	}
	return e
}

// outer returns a copy of inner, which is in err's chain, with the text of the
// whole chain. inner's plugin, step and details are in that text and in the fields of the copy; so that
// they are not said twice, its part of the text is cut down to its message.
func outer(err error, inner *Error) *Error {
	e := *inner
	e.Msg = strings.Replace(err.Error(), inner.Error(), inner.Msg, 1)
	e.Err = err
	return &e
}

// WithHint returns a copy of the error with a hint of what to do.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// Error gives plugin, step, message and details in one line.
func (e *Error) Error() string {
	var b strings.Builder
	for _, part := range []string{e.Plugin, e.Step} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(e.Msg)
	if e.Details != "" {
		b.WriteString("; " + e.Details)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// wireError is the error object of the specification with what we add to it.
type wireError struct {
	CNIVersion string `json:"cniVersion,omitempty"`
	Code       Code   `json:"code"`
	Msg        string `json:"msg"`
	Details    string `json:"details,omitempty"`
	Plugin     string `json:"plugin,omitempty"`
	Verb       Verb   `json:"verb,omitempty"`
	Step       string `json:"step,omitempty"`
	Hint       string `json:"hint,omitempty"`
}

// MarshalJSON encodes the error object of the specification; what the
// specification doesn't list (plugin, verb, step, hint, Extra) follows after it. Without
// details the hint stands in for them, since that is what old runtimes print.
func (e *Error) MarshalJSON() ([]byte, error) {
	w := wireError{e.CNIVersion, e.Code, e.Msg, e.Details, e.Plugin, e.Verb, e.Step, e.Hint}
	if w.Details == "" {
		w.Details = w.Hint
	}
	raw, err := encode(w)
	if err != nil || len(e.Extra) == 0 {
		return raw, err
	}
	o, err := ParseObject(raw)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(e.Extra)) {
		if !slices.Contains(errorKeys(), key) {
			o.Set(key, e.Extra[key])
		}
	}
	return o.Bytes(), nil
}

// errorKeys are the members of an error object that have a field.
func errorKeys() []string {
	return []string{"cniVersion", "code", "msg", "details", "plugin", "verb", "step", "hint"}
}

// UnmarshalJSON reads an error object of any plugin. One without code and msg, null included, is
// not an error object. Details that are no string are kept as their JSON text.
func (e *Error) UnmarshalJSON(data []byte) error {
	o, err := ParseObject(data)
	if err != nil {
		return err
	}
	var w wireError
	var details json.RawMessage
	var found int
	for _, f := range []struct {
		key  string
		into any
	}{
		{"cniVersion", &w.CNIVersion}, {"code", &w.Code}, {"msg", &w.Msg}, {"details", &details},
		{"plugin", &w.Plugin}, {"verb", &w.Verb}, {"step", &w.Step}, {"hint", &w.Hint},
	} {
		ok, err := o.Decode(f.key, f.into)
		if err != nil {
			return err
		}
		if ok && (f.key == "code" || f.key == "msg") {
			found++
		}
	}
	if found == 0 {
		return o.fault("code", "is missing, and msg too: this is no error object")
	}
	if len(details) > 0 && details[0] == '"' {
		w.Details = unquote(details)
	} else {
		w.Details = string(details)
	}
	if w.Details == w.Hint {
		w.Details = "" // the hint stood in
	}
	var extra map[string]json.RawMessage
	for _, m := range o.Members() {
		if slices.Contains(errorKeys(), m.Key) {
			continue
		}
		if extra == nil {
			extra = map[string]json.RawMessage{}
		}
		// In the form in which json.Marshal writes it again.
		if extra[m.Key], err = json.Marshal(m.Value); err != nil {
			return err
		}
	}
	*e = Error{w.CNIVersion, w.Code, w.Msg, w.Details, w.Plugin, w.Verb, w.Step, w.Hint, nil, extra}
	return nil
}

// AsError returns err as an [*Error]: the one in its chain with the whole
// chain's text, or a new one with code 999. nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	if inner, ok := errors.AsType[*Error](err); ok {
		return outer(err, inner)
	}
	return &Error{Code: CodeInternal, Msg: err.Error(), Err: err}
}

// CodeOf returns the code of the [*Error] in err's chain, 999 without one and 0
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
