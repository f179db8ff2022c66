package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/internal/filelock"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/netstate"
)

// iptables is the host's iptables, worked on by the programs of that name: a call is one iptables-save and one
// iptables-restore a family. The programs are of one of two kinds, legacy or nf_tables, and whichever the machine's
// administrator has chosen is used; what they print says which it is.
type iptables struct {
	space *space
	path  string // folders, as in $PATH; "" is $PATH and the usual ones of an administrator
}

// iptFolders are where an administrator's programs are.
const iptFolders = "/usr/local/sbin:/usr/sbin:/sbin"

const (
	// iptWait bounds the waiting for the lock of the legacy programs where the caller sets no bound.
	iptWait = 30 * time.Second
	// iptLock is the lock's place; the programs are not told another.
	iptLock = "/run/xtables.lock"
	// iptBusy is the exit code for a lock that was not to be had, and for a table that changed meanwhile.
	iptBusy = 4
)

// programs are the programs of a family.
func iptPrograms(family string) (save, restore string) {
	if family == "ip6" {
		return "ip6tables-save", "ip6tables-restore"
	}
	return "iptables-save", "iptables-restore"
}

// find returns the path of a program. The error is netstate.ErrUnsupported if it is nowhere. A folder of $PATH that is relative, or
// that everybody can write to, is passed over: what is found runs as root.
func (x *iptables) find(name string) (string, error) {
	for _, dir := range filepath.SplitList(x.folders()) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || ownfile.OpenToAll(info) {
			continue
		}
		if info, err := os.Stat(dir); err == nil && !ownfile.OpenToAll(info) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: %w", name, netstate.ErrUnsupported)
}

func (x *iptables) folders() string {
	if x.path == "" {
		return os.Getenv("PATH") + string(filepath.ListSeparator) + iptFolders
	}
	return x.path
}

// run runs a program in the host's namespace and returns what it prints, warnings apart. Only its start is done on a
// thread that is there.
func (x *iptables) run(ctx context.Context, input, name string, args ...string) (output, warnings string, err error) {
	path, err := x.find(name)
	if err != nil {
		return "", "", err
	}
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	// Of the caller's environment they get nothing: it could name libraries to load and another lock. Some are scripts.
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	if err := x.space.do(cmd.Start); err != nil {
		return "", "", fmt.Errorf("start %s: %w", path, err)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", "", &iptError{program: name, input: input, stderr: stderr.String(), err: err}
	}
	return stdout.String(), stderr.String(), nil
}

// iptError is the failure of a program.
type iptError struct {
	program, flavour string
	input, stderr    string
	err              error
}

// Error gives the program and its kind, the command that failed, and what the program says of it.
func (e *iptError) Error() string {
	text := e.program
	if e.flavour != "" {
		text += " (" + e.flavour + ")"
	}
	if command := e.command(); command != "" {
		text += ": " + command
	}
	said := strings.Join(strings.Fields(e.stderr), " ")
	if said == "" {
		return text + ": " + e.err.Error()
	}
	return text + ": " + said + ": " + e.err.Error()
}

// command is the line of the input that the program says has failed.
func (e *iptError) command() string {
	_, rest, _ := strings.Cut(e.stderr, "line ")
	number, _, failed := strings.Cut(rest, " failed")
	n, err := strconv.Atoi(number)
	lines := strings.Split(e.input, "\n")
	if !failed || err != nil || n < 1 || n > len(lines) {
		return ""
	}
	return lines[n-1]
}

// Unwrap returns the cause.
func (e *iptError) Unwrap() error { return e.err }

// code is the program's exit code.
func (e *iptError) code() int {
	if exit, ok := errors.AsType[*exec.ExitError](e.err); ok {
		return exit.ExitCode()
	}
	return -1
}

// read reads tables of a family; all that are in use if none is named.
func (x *iptables) read(ctx context.Context, family string, tables []string) (iptSaved, error) {
	var args []string
	if len(tables) == 1 {
		args = []string{"-t", tables[0]}
	}
	save, _ := iptPrograms(family)
	out, warnings, err := x.run(ctx, "", save, args...)
	if err != nil {
		return iptSaved{}, err
	}
	s, err := parseIptables(out)
	if err != nil {
		return iptSaved{}, fmt.Errorf("read %s: %w", save, err)
	}
	for line := range strings.Lines(warnings) {
		s.remark(strings.TrimSpace(line))
	}
	for _, table := range tables {
		if slices.Contains(s.incompatible, table) {
			return iptSaved{}, fmt.Errorf("%s (%s): table %s of %s was made by nft and holds what iptables can't show: %w",
				save, s.flavour(), table, family, netstate.ErrUnsupported)
		}
	}
	return s, nil
}

// change changes tables of a family: what edit makes of what is there is done at once. A lost race is
// seen by that what is there has changed, and then edit is asked again.
func (x *iptables) change(ctx context.Context, family string, tables []string, edit func(*iptSaved) (map[string]iptEdit, error)) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, iptWait)
		defer cancel()
	}
	_, restore := iptPrograms(family)
	var tried string
	var failed error
	for {
		s, err := x.read(ctx, family, tables)
		if err != nil {
			return errors.Join(failed, err)
		}
		edits, err := edit(&s)
		if err != nil {
			return err
		}
		input := iptInput(edits)
		if input == "" {
			return nil
		}
		if failed != nil && input == tried {
			return failed
		}
		tried = input
		_, _, err = x.run(ctx, input, restore, "--noflush", "-w", waitSeconds(ctx))
		if err == nil {
			return nil
		}
		if failed = explainIpt(err, s.flavour()); errors.Is(failed, context.DeadlineExceeded) {
			return failed
		}
	}
}

// waitSeconds is how long a program may wait for the lock: as long as the context lasts, in whole seconds, at least one.
func waitSeconds(ctx context.Context) string {
	deadline, _ := ctx.Deadline()
	return strconv.Itoa(max(int(time.Until(deadline)/time.Second), 1))
}

// explainIpt adds to a program's failure what it does not say: its kind, and who holds the lock that it waited for.
func explainIpt(err error, flavour string) error {
	failed, ok := errors.AsType[*iptError](err)
	if !ok {
		return err
	}
	failed.flavour = flavour
	if failed.code() != iptBusy && !errors.Is(failed, context.DeadlineExceeded) {
		return failed
	}
	if who := filelock.Holder(iptLock); who != "" {
		return fmt.Errorf("wait for the lock %s of iptables, held by %s: %w: %w", iptLock, who, context.DeadlineExceeded, failed)
	}
	return failed
}
