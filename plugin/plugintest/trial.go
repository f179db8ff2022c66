package plugintest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// The names of the attachment under test, and of one that came and went before it.
const (
	network    = "plugintest"
	container  = "tested"
	forerunner = "forerunner"
)

// trial is a plugin in a fresh world.
type trial struct {
	c       Case
	version string
	ctx     context.Context
	world   world
	ipam    *fixedIPAM
	leases  *leases
	plugin  plugin.Plugin
	pod     string // of the attachment under test
	clean   string // the host's state before its pod was made
	before  *cni.Result
}

// newTrial makes the world, with what the plugin before left in the pod. Another attachment has come and gone in it, so that what the
// plugin shares among pods is there.
func newTrial(t testing.TB, c Case, version string) (*trial, error) {
	tr := &trial{c: c, version: version, ctx: t.Context(), world: newWorld(t, c.Scratch), plugin: c.Plugin,
		ipam: &fixedIPAM{gives: c.IPAM, held: map[netstate.Owner]bool{}}, leases: &leases{held: map[leaseKey]netstate.Owner{}}}
	if c.Plugin == nil {
		e := planned.NewEngine(planned.Config{Kernel: tr.world.kernel(), Leases: tr.leases, Delegate: tr.ipam})
		tr.plugin = e.Plugin(c.Planned)
	}
	if err := tr.enter(forerunner); err != nil {
		return nil, err
	}
	// Whether it works is not the question here.
	a := tr.do(call{verb: cni.VerbAdd, container: forerunner})
	tr.do(call{verb: cni.VerbDel, container: forerunner, prev: a.stdout})
	if err := tr.leave(forerunner); err != nil {
		return nil, err
	}
	var err error
	if tr.clean, err = tr.hostState(); err != nil {
		return nil, err
	}
	return tr, tr.enter(container)
}

// enter makes a pod with what the plugin before made in it.
func (tr *trial) enter(container string) error {
	pod, err := tr.world.newPod()
	if err != nil {
		return err
	}
	tr.pod, tr.before = pod, nil
	if tr.c.Prev == nil {
		return nil
	}
	tr.before = tr.c.Prev.Clone()
	for i := range tr.before.Interfaces {
		if tr.before.Interfaces[i].Sandbox != "" {
			tr.before.Interfaces[i].Sandbox = pod
		}
	}
	return tr.onPod(func(s planned.Session) error {
		if err := s.Apply(tr.ctx, standIn(tr.before, container)); err != nil {
			return fmt.Errorf("make what Prev says: %w", err)
		}
		return nil
	})
}

// leave ends the pod, and what stands for the plugin before in it.
func (tr *trial) leave(container string) error {
	if tr.before != nil {
		err := tr.onPod(func(s planned.Session) error { return s.Remove(tr.ctx, standIn(tr.before, container), false) })
		if err != nil {
			return err
		}
	}
	return tr.world.removePod(tr.pod)
}

func (tr *trial) onPod(f func(planned.Session) error) error {
	s, err := tr.world.kernel().Open(tr.ctx, tr.pod, true)
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s)
}

// standIn is the state behind a result: a pair for each interface of the pod, whose other end is the interface of the host
// that the result names at the same place, and the addresses.
func standIn(res *cni.Result, container string) netstate.State {
	s := netstate.State{Owner: netstate.Owner{Network: "before", ContainerID: container, IfName: "eth0"}}
	var onHost, inPod []cni.Interface
	for _, i := range res.Interfaces {
		if i.Sandbox == "" {
			onHost = append(onHost, i)
		} else {
			inPod = append(inPod, i)
		}
	}
	for i, l := range inPod {
		peer := cni.Interface{Name: fmt.Sprintf("before%d", i)}
		if i < len(onHost) {
			peer = onHost[i]
		}
		s.Links = append(s.Links,
			netstate.Link{Place: netstate.Host, Name: peer.Name, Kind: "veth", MAC: peer.MAC, MTU: l.MTU, Peer: l.Name, PeerPlace: netstate.Pod},
			netstate.Link{Place: netstate.Pod, Name: l.Name, Kind: "veth", MAC: l.MAC, MTU: l.MTU, Peer: peer.Name, PeerPlace: netstate.Host})
	}
	for _, ip := range res.IPs {
		if ip.Interface.Set && res.Interfaces[ip.Interface.Value].Sandbox != "" {
			s.Addrs = append(s.Addrs, netstate.Addr{Place: netstate.Pod, Dev: res.Interfaces[ip.Interface.Value].Name, Prefix: ip.Address})
		}
	}
	return s
}

// call is one call of the plugin. The zero call is that of a program started with nothing.
type call struct {
	verb      cni.Verb
	container string // default: the one under test
	noNetNS   bool
	netns     string            // default: the pod's
	prev      []byte            // default: of the plugin before
	env       map[string]string // on top
	config    string            // default: the case's
	stdin     string            // in place of a configuration
	valid     []cni.Attachment  // nil is no list
}

// answer is what a program would have given back.
type answer struct {
	status int
	stdout []byte
	stderr string
}

// do makes a call the way a runtime calls a program.
func (tr *trial) do(c call) answer {
	stdin := c.stdin
	if stdin == "" {
		data, err := tr.stdin(c)
		if err != nil {
			return answer{status: -1, stderr: err.Error()}
		}
		stdin = string(data)
	}
	env := tr.environ(c)
	var stdout, stderr bytes.Buffer
	p := plugin.Process{Env: func(k string) string { return env[k] }, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr}
	a := answer{}
	err := tr.world.onHost(func() error {
		a.status = p.Serve(tr.ctx, tr.c.Info, tr.plugin)
		return nil
	})
	a.stdout, a.stderr = stdout.Bytes(), stderr.String()
	if err != nil {
		a.status, a.stderr = -1, err.Error()
	}
	return a
}

func (tr *trial) environ(c call) map[string]string {
	env := map[string]string{"CNI_COMMAND": string(c.verb), "CNI_PATH": "/plugintest/none"}
	if tr.world.memory() {
		env["CNI_NETNS_OVERRIDE"] = "1" // its namespaces have no file that could be looked at
	}
	switch c.verb {
	case cni.VerbGC, cni.VerbStatus, cni.VerbVersion:
	default:
		env["CNI_CONTAINERID"], env["CNI_NETNS"] = container, tr.pod
		env["CNI_IFNAME"], env["CNI_ARGS"] = tr.c.IfName, tr.c.Args
		if c.container != "" {
			env["CNI_CONTAINERID"] = c.container
		}
		if c.netns != "" {
			env["CNI_NETNS"] = c.netns
		}
		if c.noNetNS {
			delete(env, "CNI_NETNS")
		}
	}
	maps.Copy(env, c.env)
	return env
}

// stdin puts the configuration together as the runtime does.
func (tr *trial) stdin(c call) ([]byte, error) {
	config := c.config
	if config == "" {
		config = tr.c.Config
	}
	conf, err := cni.ParseObject([]byte(config))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	conf.Delete("capabilities")
	set := func(key string, value any) { err = errors.Join(err, conf.SetValue(key, value)) }
	set("cniVersion", tr.version)
	set("name", network)
	if c.valid != nil {
		err = errors.Join(err, conf.SetValidAttachments(c.valid))
	}
	switch {
	case c.prev != nil:
		conf.Set("prevResult", json.RawMessage(c.prev))
	case tr.before != nil && (c.verb == cni.VerbAdd || c.verb == ""):
		raw, encErr := tr.before.Encode(tr.version)
		err = errors.Join(err, encErr)
		conf.Set("prevResult", raw)
	}
	return conf.Bytes(), err
}

// state is all there is, for comparison: namespaces, addresses given, leases.
func (tr *trial) state() (string, error) {
	host, err := tr.hostState()
	if err != nil {
		return "", err
	}
	pod, err := tr.world.dump(tr.pod)
	return host + "in the pod:\n" + pod, err
}

// hostState is state without the pod's namespace.
func (tr *trial) hostState() (string, error) {
	host, err := tr.world.dump("")
	return "on the host:\n" + host + tr.ipam.dump() + tr.leases.dump(), err
}

// unchanged is an error if the state is no longer the same.
func unchanged(what string, before string, now func() (string, error)) error {
	after, err := now()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")); diff != "" {
		return fmt.Errorf("%s (-before +after):\n%s", what, diff)
	}
	return nil
}

// left is unchanged, but for what DEL may leave.
func (tr *trial) left(what string, before string, now func() (string, error)) error {
	after, err := now()
	if err != nil {
		return err
	}
	return unchanged(what, tr.withoutStays(before), func() (string, error) { return tr.withoutStays(after), nil })
}

func (tr *trial) withoutStays(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(tr.c.Stays, func(stays string) bool { return strings.HasPrefix(line, stays) }) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// done is an error unless the call succeeded and said nothing.
func (a answer) done(what string) error {
	if a.status != 0 {
		return fmt.Errorf("%s: %w", what, a.err())
	}
	if len(a.stdout) > 0 {
		return fmt.Errorf("%s: printed %q, must print nothing", what, a.stdout)
	}
	return nil
}

// err is the call's failure in words.
func (a answer) err() error {
	if e, err := a.object(); err == nil {
		return e
	}
	return fmt.Errorf("exit status %d, standard output %q, standard error %q", a.status, a.stdout, a.stderr)
}

// object reads an error object, and has it complete.
func (a answer) object() (*cni.Error, error) {
	var e cni.Error
	var raw struct {
		CNIVersion *string
		Code       *uint
		Msg        *string
	}
	if err := json.Unmarshal(a.stdout, &raw); err != nil {
		return nil, fmt.Errorf("standard output %q is no error object: %w", a.stdout, err)
	}
	if raw.CNIVersion == nil || raw.Code == nil || raw.Msg == nil || *raw.Code == 0 || *raw.Msg == "" {
		return nil, fmt.Errorf("error object %s lacks cniVersion, code or msg", a.stdout)
	}
	return &e, json.Unmarshal(a.stdout, &e)
}

// refused is an error unless the call failed with an error object; code 0 stands for any.
func (a answer) refused(what string, code cni.Code) error {
	if a.status == 0 {
		return fmt.Errorf("%s: succeeded, must be an error", what)
	}
	e, err := a.object()
	switch {
	case a.status < 0 || err != nil:
		return fmt.Errorf("%s: must be an error object: %w", what, errors.Join(err, a.err()))
	case code != 0 && e.Code != code:
		return fmt.Errorf("%s: code %d, must be %d: %w", what, e.Code, code, e)
	}
	return nil
}
