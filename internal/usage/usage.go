// Package usage says what is wrong with a program's arguments in words for whoever typed them. The library of flags quotes Go's parsers.
package usage

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Explain returns an error of the library of flags in other words, if it quotes a parser. It still wraps the error.
func Explain(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := bad.GetFlag()
	cause := ""
	switch flag.Value.Type() {
	case "int", "uint":
		cause = fmt.Sprintf("%q is no whole number", bad.GetValue())
	case "duration":
		cause = fmt.Sprintf("%q is no duration, such as 30s or 5m", bad.GetValue())
	case "bool":
		cause = fmt.Sprintf("%q is neither true nor false", bad.GetValue())
	default:
		cause = bad.Unwrap().Error() // the flag's own words
	}
	return &valueError{"--" + flag.Name + ": " + cause, err}
}

type valueError struct {
	text string
	err  error
}

func (e *valueError) Error() string { return e.text }

func (e *valueError) Unwrap() error { return e.err }
