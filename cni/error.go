package cni

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
}

// Errorf returns an error with a code. %w keeps the cause.
func Errorf(code Code, format string, args ...any) *Error { panic("stub") }

// WithHint returns the error with a hint of what to do.
func (e *Error) WithHint(format string, args ...any) *Error { panic("stub") }

// Error gives plugin, step, message and details in one line.
func (e *Error) Error() string { panic("stub") }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// MarshalJSON encodes the error object of the specification; what the
// specification doesn't list (plugin, verb, step, hint) follows after it. Without
// details the hint stands in for them, since that is what old runtimes print.
func (e *Error) MarshalJSON() ([]byte, error) { panic("stub") }

// UnmarshalJSON reads an error object of any plugin.
func (e *Error) UnmarshalJSON(data []byte) error { panic("stub") }

// AsError returns err as an [*Error]: the one in its chain with the whole
// chain's text, or a new one with code 999.
func AsError(err error) *Error { panic("stub") }

// CodeOf returns the code of the [*Error] in err's chain, 999 without one and 0
// for nil.
func CodeOf(err error) Code { panic("stub") }
