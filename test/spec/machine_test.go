package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

// machine is a node: a namespace that is its host's, folders, and a specification version.
type machine struct {
	*testing.T
	version string
	form    form
	host    *netns.Handle
	path    string          // CNI_PATH
	data    string          // folder of leases
	runner  *builtin.Runner // of the form inProcess
	pods    int             // made so far
}

const firstPort = 8080

func newMachine(t *testing.T, version string, how form) *machine {
	t.Helper()
	for _, name := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(name); err != nil {
			sandbox.Need(t, name, err.Error())
		}
	}
	m := &machine{T: t, version: version, form: how, host: sandbox.Namespace(t), path: t.TempDir(), data: t.TempDir()}
	m.in(m.host, "ip link set lo up")
	if how == inProcess {
		m.runner = newRunner(t, m.host)
	}
	return m
}

func newRunner(t *testing.T, host *netns.Handle) *builtin.Runner {
	t.Helper()
	k, err := kernel.New(kernel.Config{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	store, err := leases.New(leases.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return builtin.New(builtin.Config{
		Plugins: plugins.All(), Kernel: planned.Wrap[*kernel.Session](k), Leases: store, Originals: originals.Store{}, Env: os.Environ(),
		Programs: libcni.NewExecRunner(os.Environ(), nil), Log: slog.New(slog.DiscardHandler),
	})
}

// in runs a command line, split at blanks, in a namespace.
func (m *machine) in(ns *netns.Handle, line string) string {
	m.Helper()
	words := strings.Fields(line)
	out, err := inside(ns, exec.Command(words[0], words[1:]...))
	if err != nil {
		m.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

func inside(ns *netns.Handle, cmd *exec.Cmd) (string, error) {
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = cmd.CombinedOutput()
		return err
	})
	return string(out), err
}

// pod is a container with one attachment.
type pod struct {
	id, ifName string
	ns         *netns.Handle
	netns      string          // CNI_NETNS
	port       int             // that is mapped to it, if the plugin maps one
	base       json.RawMessage // the result before the plugin; nil without one
	result     json.RawMessage // the plugin's
}

func (m *machine) newPod(id string) *pod {
	m.Helper()
	path := filepath.Join(m.TempDir(), "ns") // short names: each call has a folder of its own
	ns, err := netns.Mount(path)
	if err != nil {
		m.Fatal(err)
	}
	m.pods++
	p := &pod{id: id, ifName: "eth0", ns: ns, netns: path, port: firstPort + m.pods}
	m.Cleanup(func() { p.unmount(m) })
	return p
}

const network = "specnet"

// env is the environment of a call as the runtime makes it.
func (m *machine) env(verb cni.Verb, p *pod) map[string]string {
	env := map[string]string{"CNI_COMMAND": string(verb), "CNI_PATH": m.path}
	if verb == cni.VerbAdd || verb == cni.VerbDel || verb == cni.VerbCheck {
		env["CNI_CONTAINERID"], env["CNI_NETNS"], env["CNI_IFNAME"] = p.id, p.netns, p.ifName
	}
	return env
}

// conf is the configuration of a plugin of a type: members and, where they are given, further ones ("prevResult", …).
func (m *machine) conf(typ, members string, more ...string) string {
	m.Helper()
	members = strings.NewReplacer(
		"IPAM", `{"type":"host-local","dataDir":"DATA","ranges":[[{"subnet":"10.88.0.0/16"}],[{"subnet":"fd00:88::/64"}]],"routes":[{"dst":"192.0.2.0/24"}]}`,
		"FULL", `{"type":"host-local","dataDir":"DATA","ranges":[[{"subnet":"10.88.0.0/16","rangeStart":"10.88.0.2","rangeEnd":"10.88.0.2"}]]}`,
		"FAKE", `{"type":"fake-ipam","keep":12345678901234567890}`,
	).Replace(members)
	var text strings.Builder
	text.WriteString(fmt.Sprintf(`{"cniVersion":%q,"name":%q,"type":%q`, m.version, network, typ))
	for _, part := range append([]string{members}, more...) {
		if part != "" {
			text.WriteString("," + part)
		}
	}
	return strings.NewReplacer("DATA", m.data, "PORT", strconv.Itoa(firstPort)).Replace(text.String()) + "}"
}

// confOf are the configuration's members for a container, each of which has a port of its own.
func (s sample) confOf(p *pod) string {
	return strings.ReplaceAll(s.conf, "PORT", strconv.Itoa(p.port))
}

func prevResult(prev json.RawMessage) string {
	if prev == nil {
		return ""
	}
	return `"prevResult":` + string(prev)
}

// answer is what a plugin did.
type answer struct {
	status         int
	stdout, stderr string
}

// fault is the error object of a failed call.
func (a answer) fault(t testing.TB) *cni.Error {
	t.Helper()
	e := new(cni.Error)
	if err := json.Unmarshal([]byte(a.stdout), e); a.status == 0 || err != nil {
		t.Fatalf("exit status %d, want an error object on standard output: %v\n%s%s", a.status, err, a.stdout, a.stderr)
	}
	return e
}

// fails checks that a call failed with a code, 0 for any, and that the error's text holds words.
func (a answer) fails(t testing.TB, code cni.Code, words ...string) {
	t.Helper()
	e := a.fault(t)
	if code != 0 && e.Code != code {
		t.Errorf("code %d, want %d: %s", e.Code, code, a.stdout)
	}
	for _, w := range words {
		if !strings.Contains(e.Msg+" "+e.Details, w) {
			t.Errorf("the error does not hold %q: %s", w, a.stdout)
		}
	}
}

// succeeds checks that a call did, and that only ADD and VERSION print.
func (a answer) succeeds(t testing.TB, what string) answer {
	t.Helper()
	if a.status != 0 {
		t.Fatalf("%s: exit status %d\n%s%s", what, a.status, a.stdout, a.stderr)
	}
	return a
}

// call runs a plugin with an environment and standard input.
func (m *machine) call(typ string, env map[string]string, stdin string) answer {
	m.Helper()
	if m.form == inProcess {
		return m.callHere(typ, env, stdin)
	}
	return m.start(typ, env, stdin)
}

// start runs the program of a plugin.
func (m *machine) start(typ string, env map[string]string, stdin string) answer {
	m.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program(), typ)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := m.host.Do(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		m.Fatal(err)
	}
	return answer{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// callHere runs a plugin that is built in.
func (m *machine) callHere(typ string, env map[string]string, stdin string) answer {
	m.Helper()
	conf, err := cni.ParseObject([]byte(stdin))
	if err != nil {
		m.Fatal(err)
	}
	args, err := cni.ParseArgs(env["CNI_ARGS"])
	if err != nil {
		m.Fatal(err)
	}
	outs, err := m.runner.Run(m.Context(), []libcni.Call{{
		Verb: cni.Verb(env["CNI_COMMAND"]), Type: typ, ContainerID: env["CNI_CONTAINERID"], NetNS: env["CNI_NETNS"],
		IfName: env["CNI_IFNAME"], Args: args, Dirs: filepath.SplitList(env["CNI_PATH"]), Conf: conf,
	}})
	if err != nil {
		out, encErr := json.Marshal(cni.AsError(err))
		if encErr != nil {
			m.Fatal(encErr)
		}
		return answer{status: 1, stdout: string(out)}
	}
	return answer{stdout: string(outs[0])}
}

// below attaches p with what a chained plugin stands on.
func (m *machine) below(s sample, p *pod) {
	m.Helper()
	if s.role != chained || p.base != nil {
		return
	}
	base := sampleOf(m.T, "bridge")
	a := m.call(base.typ, m.env(cni.VerbAdd, p), m.conf(base.typ, base.conf)).succeeds(m, "ADD of "+base.typ)
	p.base = json.RawMessage(a.stdout)
}

// add runs ADD, of a chained plugin on top of another.
func (m *machine) add(s sample, p *pod) answer {
	m.Helper()
	m.below(s, p)
	a := m.call(s.typ, m.env(cni.VerbAdd, p), m.conf(s.typ, s.confOf(p), prevResult(p.base)))
	if a.status == 0 {
		p.result = json.RawMessage(a.stdout)
	}
	return a
}

// attach is add that has to succeed.
func (m *machine) attach(s sample, id string) *pod {
	m.Helper()
	p := m.newPod(id)
	m.add(s, p).succeeds(m, "ADD")
	return p
}

// lists reports whether the version has prevResult in DEL.
func (m *machine) delHasPrev() bool { return cni.AtLeast(m.version, "0.4.0") }

// del runs DEL with the result of ADD.
func (m *machine) del(s sample, p *pod) answer {
	m.Helper()
	prev := p.prev(s)
	if !m.delHasPrev() {
		prev = nil
	}
	return m.call(s.typ, m.env(cni.VerbDel, p), m.conf(s.typ, s.confOf(p), prevResult(prev)))
}

// prev is what CHECK and DEL get: the final result.
func (p *pod) prev(s sample) json.RawMessage {
	if p.result == nil {
		return p.base
	}
	return p.result
}

// delBelow takes away what a chained plugin stood on.
func (m *machine) delBelow(s sample, p *pod) {
	m.Helper()
	if s.role == chained {
		base := sampleOf(m.T, "bridge")
		m.call(base.typ, m.env(cni.VerbDel, p), m.conf(base.typ, base.conf)).succeeds(m, "DEL of "+base.typ)
	}
}

// check runs CHECK. A delegated plugin gets the result of the one that it serves.
func (m *machine) check(s sample, p *pod) answer {
	m.Helper()
	prev := p.prev(s)
	if s.role == ipam {
		prev = withInterface(m.T, prev, p)
	}
	return m.call(s.typ, m.env(cni.VerbCheck, p), m.conf(s.typ, s.confOf(p), prevResult(prev)))
}

// withInterface gives the addresses of an IPAM result to an interface of the container, as the main plugin does.
func withInterface(t testing.TB, result json.RawMessage, p *pod) json.RawMessage {
	t.Helper()
	r, err := cni.DecodeResult(result, cni.Current)
	if err != nil {
		t.Fatal(err)
	}
	r.Interfaces = []cni.Interface{{Name: p.ifName, Sandbox: p.netns}}
	for i := range r.IPs {
		r.IPs[i].Interface = cni.Some(0)
	}
	out, err := r.Encode(r.CNIVersion)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gc runs GC with the attachments that are valid.
func (m *machine) gc(s sample, valid ...*pod) answer {
	m.Helper()
	list := []cni.Attachment{}
	for _, p := range valid {
		list = append(list, cni.Attachment{ContainerID: p.id, IfName: p.ifName})
	}
	text, err := json.Marshal(list)
	if err != nil {
		m.Fatal(err)
	}
	return m.call(s.typ, m.env(cni.VerbGC, nil), m.conf(s.typ, s.conf, `"cni.dev/valid-attachments":`+string(text)))
}

func (m *machine) status(s sample, members string) answer {
	m.Helper()
	return m.call(s.typ, m.env(cni.VerbStatus, nil), m.conf(s.typ, members))
}

// owned lists what there is of an attachment: interfaces, rules and leases. What all share (a bridge, chains) is not in it.
func (m *machine) owned(p *pod) []string {
	m.Helper()
	var all []string
	if p.ns != nil {
		for line := range strings.Lines(m.in(p.ns, "ip -o link")) {
			name := linkName(line)
			if name != "lo" || strings.Contains(line, "LOWER_UP") {
				all = append(all, "pod link "+name)
			}
			if name != "lo" {
				all = append(all, "pod "+name+" "+after(line, "mtu")+" "+after(line, "qlen"))
			}
		}
		for line := range strings.Lines(m.in(p.ns, "ip rule")) {
			if !strings.Contains(line, "from all") { // as those are that every namespace has
				all = append(all, "pod rule "+strings.Join(strings.Fields(line)[1:], " "))
			}
		}
	}
	for line := range strings.Lines(m.in(m.host, "ip -o link")) {
		if strings.Contains(line, p.id) {
			all = append(all, "host link "+linkName(line))
		}
	}
	for line := range strings.Lines(m.in(m.host, "nft -s list ruleset")) {
		for range strings.Count(line, p.id) {
			all = append(all, "rule")
		}
	}
	for _, file := range m.leases() {
		if holder, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(holder), p.id+"\r\n") {
			all = append(all, "lease "+filepath.Base(file))
		}
	}
	slices.Sort(all)
	return all
}

// after is a word of a line with the word before it.
func after(line, word string) string {
	words := strings.Fields(line)
	if i := slices.Index(words, word); i >= 0 && i+1 < len(words) {
		return word + " " + words[i+1]
	}
	return ""
}

func linkName(line string) string {
	name, _, _ := strings.Cut(strings.Fields(line)[1], "@")
	return strings.TrimSuffix(name, ":")
}

// leases are the files of all leases.
func (m *machine) leases() []string {
	entries, err := os.ReadDir(filepath.Join(m.data, network))
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		m.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err == nil {
			files = append(files, filepath.Join(m.data, network, e.Name()))
		}
	}
	return files
}

// gone checks that nothing of an attachment is left, but for lo, which stays up by design.
func (m *machine) gone(p *pod) {
	m.Helper()
	left := slices.DeleteFunc(m.owned(p), func(s string) bool { return s == "pod link lo" })
	if len(left) > 0 {
		m.Errorf("left of %s: %s", p.id, strings.Join(left, ", "))
	}
}

// goneUntold is gone for a verb that was not told the namespace: what is of the pod alone ends with that.
func (m *machine) goneUntold(p *pod) {
	m.Helper()
	left := slices.DeleteFunc(m.owned(p), func(s string) bool { return s == "pod link lo" || strings.HasPrefix(s, "pod rule ") })
	if len(left) > 0 {
		m.Errorf("left of %s: %s", p.id, strings.Join(left, ", "))
	}
}

// do runs command lines of samples on an attachment.
func (m *machine) do(p *pod, lines []string) {
	m.Helper()
	r, err := cni.DecodeResult(p.result, m.version)
	if err != nil {
		m.Fatal(err)
	}
	words := []string{"IF", p.ifName}
	for _, dev := range r.Interfaces {
		if strings.HasPrefix(dev.Name, "veth") {
			words = append(words, "VETH", dev.Name)
		}
	}
	if len(r.IPs) > 0 {
		words = append(words, "ADDR", r.IPs[0].Address.String())
	}
	for _, line := range lines {
		place, command, _ := strings.Cut(strings.NewReplacer(words...).Replace(line), " ")
		switch place {
		case "pod":
			m.in(p.ns, command)
		case "host":
			m.in(m.host, command)
		default: // rm leases
			for _, file := range m.leases() {
				if err := os.Remove(file); err != nil {
					m.Fatal(err)
				}
			}
		}
	}
}

// unmount ends the pod's namespace: its path leads nowhere any more.
func (p *pod) unmount(t testing.TB) {
	t.Helper()
	if p.ns == nil {
		return
	}
	if err := errors.Join(netns.Unmount(p.netns), p.ns.Close()); err != nil {
		t.Fatal(err)
	}
	p.ns = nil
}
