package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cleat-cni/cleat/cni"
)

// Main is the main function of a plugin's program: it answers the call that the environment
// and standard input describe, and exits with 0, or with 1 after an error object.
// SIGINT and SIGTERM end the context.
func Main(info Info, p Plugin) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Process{Env: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Serve(ctx, info, p)
	stop()
	os.Exit(code)
}

// Process is what a plugin's program sees of the world: all fields are required.
type Process struct {
	Env    func(string) string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// maxStdin bounds the configuration that is read, in bytes.
const maxStdin = 16 << 20

// Serve answers one call and returns the exit status. The error object of a failed call goes to standard
// output, as every version of the specification has it in practice. A panic in the plugin becomes an error
// object with code 999; its stack goes to standard error.
func (pr Process) Serve(ctx context.Context, info Info, p Plugin) int {
	env := EnvFrom(pr.Env)
	switch env.Command {
	case "":
		return pr.about(info)
	case string(cni.VerbVersion):
		return pr.version(info)
	}
	version := cni.Current
	var result []byte
	stdin, err := readAll(pr.Stdin)
	if err == nil {
		version = versionOf(stdin)
		result, err = pr.call(ctx, info, p, env, stdin)
	}
	if err != nil {
		return pr.fail(info, cni.Verb(env.Command), version, err)
	}
	if _, err := pr.Stdout.Write(result); err != nil {
		fmt.Fprintf(pr.Stderr, "%s: write result: %v\n", info.Type, err)
		return 1
	}
	return 0
}

// call checks and makes one call and returns what goes to standard output.
func (pr Process) call(ctx context.Context, info Info, p Plugin, env Env, stdin []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(pr.Stderr, "%s: panic: %v\n%s", info.Type, r, debug.Stack())
			err = cni.Errorf(cni.CodeInternal, "panic: %v", r)
		}
	}()
	req, err := NewRequest(info, env, stdin)
	if err != nil {
		return nil, err
	}
	if err := req.keepOffOwnNetNS(); err != nil {
		return nil, err
	}
	return Call(ctx, p, req)
}

// Call runs the verb of req and returns what the plugin answers on standard output: for ADD the
// result in the configuration's version, else nothing.
func Call(ctx context.Context, p Plugin, req *Request) ([]byte, error) {
	switch req.Verb {
	case cni.VerbAdd:
		res, err := p.Add(ctx, req)
		if err != nil {
			return nil, err
		}
		return res.Encode(req.Conf.CNIVersion)
	case cni.VerbDel:
		return nil, p.Del(ctx, req)
	case cni.VerbCheck:
		return nil, p.Check(ctx, req)
	case cni.VerbGC:
		return nil, p.GC(ctx, req)
	case cni.VerbStatus:
		return nil, p.Status(ctx, req)
	default:
		return nil, cni.Errorf(cni.CodeInvalidEnvironment, "unknown CNI_COMMAND: %s", req.Verb)
	}
}

// about is what a program says that somebody started by hand.
func (pr Process) about(info Info) int {
	about := info.About
	if about == "" {
		about = "CNI plugin " + info.Type
	}
	fmt.Fprintf(pr.Stderr, "%s\nCNI protocol versions supported: %s\n", about, strings.Join(info.versions(), ", "))
	return 0
}

// version answers VERSION with the version that was asked in (specification, section 5, "Version
// success"). The reference library doesn't read standard input here, so nothing may hang on it.
func (pr Process) version(info Info) int {
	answer := cni.VersionInfo{CNIVersion: cni.Current, Supported: info.versions()}
	asked := make(chan []byte, 1)
	go func() {
		// An unreadable input is answered as an empty one.
		data, _ := readAll(pr.Stdin)
		asked <- data
	}()
	select {
	case data := <-asked:
		if o, err := cni.ParseObject(data); err == nil {
			var v string
			if ok, err := o.Decode("cniVersion", &v); ok && err == nil {
				answer.CNIVersion = v
			}
		}
	case <-time.After(time.Second):
	}
	out, err := json.Marshal(answer)
	if err != nil {
		return pr.fail(info, cni.VerbVersion, cni.Current, err)
	}
	if _, err := pr.Stdout.Write(out); err != nil {
		fmt.Fprintf(pr.Stderr, "%s: write version: %v\n", info.Type, err)
		return 1
	}
	return 0
}

func (pr Process) fail(info Info, verb cni.Verb, version string, err error) int {
	e := *cni.AsError(err)
	e.CNIVersion = version
	e.Plugin = info.Type
	if slices.Contains([]cni.Verb{cni.VerbAdd, cni.VerbDel, cni.VerbCheck, cni.VerbGC, cni.VerbStatus, cni.VerbVersion}, verb) {
		e.Verb = verb
	}
	out, encErr := json.Marshal(&e)
	if encErr == nil {
		_, encErr = pr.Stdout.Write(out)
	}
	if encErr != nil {
		fmt.Fprintf(pr.Stderr, "%s: write error: %v (%v)\n", info.Type, encErr, err)
	}
	return 1
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
	if err != nil {
		return nil, cni.Errorf(cni.CodeIO, "read configuration from standard input: %w", err)
	}
	if len(data) > maxStdin {
		return nil, cni.Errorf(cni.CodeDecode, "configuration on standard input has more than %d MiB", maxStdin>>20)
	}
	return data, nil
}

// versionOf returns the configuration's version for the error object, before anything is
// known to be right.
func versionOf(stdin []byte) string {
	o, err := cni.ParseObject(stdin)
	if err != nil {
		return cni.Current
	}
	var v string
	if ok, err := o.Decode("cniVersion", &v); !ok || err != nil || v == "" {
		return cni.Current
	}
	return v
}
