package libcni

import (
	"context"
	"io"

	"github.com/cleat-cni/cleat/internal/pluginexec"
)

// Program is one start of a program with an input and an environment that the caller has made: for a runtime with an interface of
// its own, which [CNI] is too much for. Nothing is added to them, and nothing is read out of the answer.
type Program struct {
	Path   string    // required; see FindProgram
	Stdin  []byte    // what it reads on standard input
	Env    []string  // its whole environment; nil is the one of this process
	Stderr io.Writer // gets what it writes to standard error while it runs; default nobody
}

// Output is what a program left: all of its standard output, and the last 4 KiB of its standard error.
type Output struct{ Stdout, Stderr []byte }

// FindProgram returns the absolute path of the program of a plugin in the first of dirs that has one which can be run. An error is a
// *cni.Error that says what is in the way: code 7 for a type that is no bare file name, else 4; where no folder has the name it
// wraps fs.ErrNotExist.
func FindProgram(typ string, dirs []string) (string, error) {
	return pluginexec.Find(typ, dirs)
}

// Run starts the program and waits for its end. When ctx ends first, the program gets SIGTERM and after 2 s SIGKILL, and so does all that
// it has started; the error matches that of ctx. A program that is being written ("text file busy") is tried again for 5 s.
//
// An error is a *cni.Error. That of a program which ended with another status than 0 wraps an *exec.ExitError; beside it there is the
// output, which is where a plugin says what went wrong.
func (p Program) Run(ctx context.Context) (Output, error) {
	out, err := pluginexec.RunRaw(ctx, pluginexec.Command{Path: p.Path, Env: p.Env, Stdin: p.Stdin, Stderr: p.Stderr})
	return Output(out), err
}
