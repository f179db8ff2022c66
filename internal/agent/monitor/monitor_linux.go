// Package monitor is the process that is the parent of a container: it writes what the container prints into its log, and how it
// ended into a file, whether the agent runs or not. It is cleat-cni, called as monitor with the container's folder. With exec before it, it is the parent
// of one more process in a container of runc.
//
// A container is runc's, from a bundle; or it is a host command, which runs in the host's file system and in the pod's namespaces.
package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cleat-cni/cleat/internal/agent/cgroup"
	"github.com/cleat-cni/cleat/internal/agent/spawn"
	"github.com/cleat-cni/cleat/internal/atomicfile"
	"github.com/cleat-cni/cleat/internal/ownfile"
)

// Name is what cleat-cni is called as to be a monitor.
const Name = "monitor"

// Spec is what a monitor does, in the file SpecFile of the container's folder.
type Spec struct {
	ID     string       `json:"id"`
	Log    LogSpec      `json:"log"`
	Cgroup string       `json:"cgroup,omitempty"` // the container's group; a host command is put into it
	Runc   *RuncSpec    `json:"runc,omitempty"`   // one of both
	Host   *HostCommand `json:"host,omitempty"`
}

// The files of a container's folder.
const (
	SpecFile    = "monitor.json"
	StartedFile = "started.json" // Started, once the container runs
	ExitFile    = "exit.json"
)

// Started is what a monitor tells once, through the descriptor ReportFD and, if the container runs, in StartedFile.
type Started struct {
	Process spawn.Identity `json:"process"`
	At      time.Time      `json:"at"`
	Error   string         `json:"error,omitempty"`
}

// maxFile bounds what is read of a file. The longest have a container's environment.
const maxFile = 16 << 20

// ReportFD is the descriptor of Started.
const ReportFD = 4

// Exit is how a container ended.
type Exit struct {
	Code      int       `json:"code"` // 128 + n if signal n ended it
	At        time.Time `json:"at"`
	OOMKilled bool      `json:"oomKilled,omitempty"`
	// Error says why it was never started; then Code is 128.
	Error string `json:"error,omitempty"`
}

// notStarted is the code of a container that could not be started, as of containerd.
const notStarted = 128

// ReadExit reads how the container of a folder ended. The error is fs.ErrNotExist as long as it has not.
func ReadExit(dir string) (Exit, error) {
	var e Exit
	data, err := ownfile.Read(filepath.Join(dir, ExitFile), maxFile)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("read %s: %w", filepath.Join(dir, ExitFile), err)
	}
	return e, nil
}

// Main is the process. It returns its exit status.
func Main(ctx context.Context, args []string) int {
	if len(args) == 2 && args[0] == ExecArg {
		code, err := execute(ctx, args[1])
		if err != nil {
			fmt.Fprintf(os.Stderr, "monitor: %v\n", err)
		}
		return code
	}
	if err := run(ctx, args); err != nil {
		fmt.Fprintf(os.Stderr, "monitor: %v\n", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: monitor [exec] FOLDER")
	}
	m := &monitor{dir: args[0]}
	data, err := ownfile.Read(filepath.Join(m.dir, SpecFile), maxFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &m.spec); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(m.dir, SpecFile), err)
	}
	if m.groups, err = cgroup.Mounted(); err != nil {
		return err
	}
	if err := becomeReaper(); err != nil {
		return err
	}
	if err := spawn.Await(); err != nil {
		return err
	}
	return m.watch(ctx)
}

// monitor is one container's.
type monitor struct {
	dir    string
	spec   Spec
	groups cgroup.Tree
}

// process is a container that was started.
type process struct {
	pid     int
	cleanUp func() error // what is left of it once it has ended
}

// watch starts the container and stays until it has ended.
func (m *monitor) watch(ctx context.Context) error {
	report := os.NewFile(ReportFD, "report")
	log, err := openLog(m.spec.Log, time.Now)
	if err != nil {
		return m.refuse(report, err)
	}
	defer log.close()
	out, copied, err := pipes(log)
	if err != nil {
		return m.refuse(report, err)
	}
	var p process
	switch {
	case m.spec.Runc != nil:
		p, err = m.spec.Runc.start(m.dir, out)
	case m.spec.Host != nil:
		p, err = m.startHost(ctx, out)
	default:
		err = errors.New("the container is neither runc's nor a host command")
	}
	out.close()
	if err != nil {
		return m.refuse(report, err)
	}
	started := Started{Process: identity(p.pid), At: time.Now()}
	err = m.write(StartedFile, started)
	tell(report, started)
	exit := reap(p.pid)
	exit.OOMKilled = m.groups.OOMKilled(m.spec.Cgroup)
	// First what it used and left, which may hold its output, then the word that it has ended: whoever starts the next one finds all of it free.
	cleaned := p.cleanUp()
	drain(copied)
	return errors.Join(err, cleaned, m.write(ExitFile, exit))
}

// identity names a process that may have ended already, which its parent has not reaped.
func identity(pid int) spawn.Identity {
	id, err := spawn.Identify(pid)
	if err != nil {
		return spawn.Identity{PID: pid}
	}
	return id
}

// refuse writes down and tells that the container could not be started.
func (m *monitor) refuse(report *os.File, cause error) error {
	err := m.write(ExitFile, Exit{Code: notStarted, At: time.Now(), Error: cause.Error()})
	tell(report, Started{Error: cause.Error()})
	return err
}

// tell reports; that nobody listens any more is no matter, since the agent finds it out again by the files.
func tell(report *os.File, s Started) {
	if report == nil {
		return
	}
	defer report.Close()
	_ = json.NewEncoder(report).Encode(s)
}

func (m *monitor) write(file string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(m.dir, file), data, 0o600)
}

// output is the ends of the streams that a container writes into.
type output struct{ stdout, stderr *os.File }

func (o output) close() {
	o.stdout.Close()
	o.stderr.Close()
}

// pipes makes a container's streams; copied is closed when both have ended.
func pipes(log *logWriter) (o output, copied <-chan struct{}, err error) {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return o, nil, err
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		stdout.Close()
		stdoutW.Close()
		return o, nil, err
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() { log.copy("stdout", stdout) })
	wg.Go(func() { log.copy("stderr", stderr) })
	go func() {
		wg.Wait()
		stdout.Close()
		stderr.Close()
		close(done)
	}()
	return output{stdoutW, stderrW}, done, nil
}

// linger is how long output is waited for once the container has ended: something that got out of its control group may hold the pipe for ever.
const linger = time.Second

func drain(copied <-chan struct{}) {
	select {
	case <-copied:
	case <-time.After(linger):
	}
}
