package libcni

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// The folders used where a [Config] names none.
const (
	DefaultStateDir = "/var/lib/cni"
	DefaultLockDir  = "/run/cleat"
)

// defaultUndoTimeout bounds the undoing of a failed ADD.
const defaultUndoTimeout = 20 * time.Second

// Config configures a [CNI].
type Config struct {
	PluginDirs []string // required to run anything: searched in order, and passed on as CNI_PATH
	StateDir   string   // default DefaultStateDir
	LockDir    string   // one for all that share StateDir; default DefaultLockDir, with another StateDir <StateDir>/cleat/lock
	Runner     Runner   // default: an ExecRunner with Environ and Stderr
	// Environ is the environment of this process, which plugins inherit; default os.Environ. Where CLEAT_OPERATION in it names a
	// container, this process is part of an operation on that container, such as a plugin that runs other plugins, and does not
	// wait for the end of it. Every plugin is started with the variable set.
	Environ    []string
	Log        *slog.Logger // default slog.Default
	Stderr     io.Writer    // gets what plugins write to their standard error; default nobody. Errors quote the end of it either way
	BestEffort bool         // DEL goes on with the next plugin after an error, instead of leaving the rest to a retry
	// UndoTimeout bounds the undoing of a failed ADD, which has a context of its own. Default 20 s.
	UndoTimeout time.Duration
	Now         func() time.Time // default time.Now
	// Schema is that of the records that are written, and up to which they are believed. Default netstate.Schema. Tests of an upgrade set
	// another.
	Schema int
}

// CNI runs the plugins of networks. It is safe for concurrent use.
type CNI struct {
	dirs        []string
	store       store
	lockDir     string
	runner      Runner
	log         *slog.Logger
	bestEffort  bool
	undoTimeout time.Duration
	now         func() time.Time
	bootID      string
	schema      int
	within      string // what this process is part of an operation on: a container, allContainers, or "" for none
}

// New returns a CNI. It touches nothing; folders are made when the first attachment needs them.
func New(cfg Config) (*CNI, error) {
	c := &CNI{
		dirs: cfg.PluginDirs, store: store{cfg.StateDir}, lockDir: cfg.LockDir, runner: cfg.Runner,
		log: cfg.Log, bestEffort: cfg.BestEffort, undoTimeout: cfg.UndoTimeout, now: cfg.Now, bootID: readBootID(),
		schema: cmp.Or(cfg.Schema, netstate.Schema),
	}
	if c.store.dir == "" {
		c.store.dir = DefaultStateDir
	}
	if c.lockDir == "" {
		c.lockDir = DefaultLockDir
		if c.store.dir != DefaultStateDir {
			c.lockDir = filepath.Join(c.store.dir, "cleat", "lock")
		}
	}
	environ := cfg.Environ
	if environ == nil {
		environ = os.Environ()
	}
	c.within = lookup(environ, operationVar)
	for _, dir := range c.dirs {
		if strings.ContainsRune(dir, os.PathListSeparator) {
			return nil, cni.Errorf(cni.CodeInvalidEnvironment, "plugin folder %q: holds %q, which separates folders in CNI_PATH", dir, os.PathListSeparator)
		}
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	if c.runner == nil {
		c.runner = NewExecRunner(environ, cfg.Stderr)
	}
	if c.undoTimeout <= 0 {
		c.undoTimeout = defaultUndoTimeout
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// readBootID identifies this boot of the machine; "" where the system has no such number.
func readBootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
}

// RuntimeConf is one attachment, as the runtime wants it.
type RuntimeConf struct {
	ContainerID string
	NetNS       string // path of the namespace; may be empty on DEL
	IfName      string
	Args        cni.Args // CNI_ARGS
	// CapabilityArgs are handed to the plugins that declare the capability. Values are encoded as JSON; a
	// json.RawMessage stays as it is.
	CapabilityArgs map[string]any
}

// operation is one verb for one attachment.
type operation struct {
	list *NetworkConfigList
	rt   RuntimeConf
	caps map[string]json.RawMessage
	dirs []string
}

func (op *operation) key() key { return key{op.list.Name, op.rt.ContainerID, op.rt.IfName} }

// operation prepares calls; it checks nothing but that the arguments are there and can be encoded.
func (c *CNI) operation(list *NetworkConfigList, rt *RuntimeConf) (*operation, error) {
	if list == nil || len(list.Plugins) == 0 {
		return nil, errNoConfig()
	}
	if rt == nil {
		rt = &RuntimeConf{}
	}
	op := &operation{list: list, rt: *rt, dirs: c.dirs}
	for name, value := range rt.CapabilityArgs {
		raw, err := encode(value)
		if err != nil {
			return nil, fmt.Errorf("encode capability %s: %w", name, err)
		}
		if op.caps == nil {
			op.caps = make(map[string]json.RawMessage)
		}
		op.caps[name] = raw
	}
	return op, nil
}

// encode writes a value as JSON without HTML escapes.
func encode(value any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

// calls returns the call of each plugin, in the order of the list.
func (op *operation) calls(verb cni.Verb) []Call {
	calls := make([]Call, 0, len(op.list.Plugins))
	for _, p := range op.list.Plugins {
		var caps map[string]json.RawMessage
		for name, value := range op.caps {
			if !p.Network.Capabilities[name] {
				continue
			}
			if caps == nil {
				caps = make(map[string]json.RawMessage)
			}
			caps[name] = value
		}
		calls = append(calls, Call{
			Verb: verb, Type: p.Network.Type, ContainerID: op.rt.ContainerID, NetNS: op.rt.NetNS, IfName: op.rt.IfName,
			Args: op.rt.Args, Dirs: op.dirs,
			Conf: p.Network.Request(op.list.Name, op.list.CNIVersion, caps),
		})
	}
	return calls
}

// checkList checks what every verb needs of a network. Errors have code 7, or 1 for the version.
func checkList(list *NetworkConfigList) error {
	if err := cni.CheckNetworkName(list.Name); err != nil {
		return err
	}
	if !cni.Supported(list.CNIVersion) {
		where := "network " + list.Name
		if list.Source != "" {
			where = list.Source
		}
		return cni.Errorf(cni.CodeIncompatibleVersion, "%s: cniVersion %q is none of those spoken here: %s",
			where, list.CNIVersion, strings.Join(cni.Versions(), ", ")).
			WithHint("set cniVersion to %s, or list it in cniVersions, if the plugins can do with it", cni.Current)
	}
	for _, p := range list.Plugins {
		if err := cni.CheckType(p.Network.Type); err != nil {
			return err
		}
	}
	return nil
}

// checkIDs checks the names of an attachment.
func checkIDs(rt *RuntimeConf) error {
	return errors.Join(cni.CheckContainerID(rt.ContainerID), cni.CheckIfName(rt.IfName))
}

// findAll finds every plugin of the list before any runs.
func (c *CNI) findAll(list *NetworkConfigList) error {
	for _, p := range list.Plugins {
		if _, err := c.runner.Find(p.Network.Type, c.dirs); err != nil {
			return named(p.Network.Type, err)
		}
	}
	return nil
}

// named makes sure that an error says which plugin it is of.
func named(typ string, err error) error {
	if e, ok := errors.AsType[*cni.Error](err); ok && e.Plugin != "" {
		return err
	}
	return fmt.Errorf("plugin %s: %w", typ, err)
}

// runEach runs calls in order. Where goOn is set an error doesn't stop it; all errors are returned joined, and a
// call that hangs has only its share of the time, so that those behind it have theirs.
func (c *CNI) runEach(ctx context.Context, calls []Call, goOn bool) error {
	var errs []error
	for len(calls) > 0 {
		outs, err := c.runShare(ctx, calls, goOn)
		if err == nil {
			err = checkCount(calls, outs)
		}
		if err == nil {
			calls = calls[len(outs):]
			continue
		}
		failed := failedCall(calls, len(outs), err)
		errs = append(errs, named(calls[failed].Type, err))
		if !goOn || ctx.Err() != nil { // the others would only say the same
			break
		}
		calls = calls[failed+1:]
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// runShare gives the runner, if share is set, an equal part of the time that is left for all of calls.
func (c *CNI) runShare(ctx context.Context, calls []Call, share bool) ([][]byte, error) {
	end, bounded := ctx.Deadline()
	if !share || !bounded || len(calls) == 1 {
		return c.runner.Run(ctx, calls)
	}
	part := time.Until(end) / time.Duration(len(calls))
	ctx, cancel := context.WithTimeoutCause(ctx, part, shareError(part))
	defer cancel()
	return c.runner.Run(ctx, calls)
}

// shareError is the end of a call's share of the time. It is a context.DeadlineExceeded.
type shareError time.Duration

func (e shareError) Error() string {
	return fmt.Sprintf("no end within %v, its share of the time", time.Duration(e).Round(time.Millisecond))
}

func (shareError) Is(target error) bool { return target == context.DeadlineExceeded }

// checkCount holds a runner to its contract, which keeps loops from running for ever.
func checkCount(calls []Call, outs [][]byte) error {
	if len(outs) == 0 || len(outs) > len(calls) {
		return cni.Errorf(cni.CodeInternal, "runner answered %d of %d calls", len(outs), len(calls))
	}
	return nil
}

// failedCall is the index of the call that err is of: the first after the answered ones whose type the error names.
func failedCall(calls []Call, answered int, err error) int {
	answered = min(answered, len(calls)-1)
	if e, ok := errors.AsType[*cni.Error](err); ok && e.Plugin != "" {
		for i := answered; i < len(calls); i++ {
			if calls[i].Type == e.Plugin {
				return i
			}
		}
	}
	return answered
}
