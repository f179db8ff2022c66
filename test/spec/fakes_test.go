package spec

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
)

// noted is a call that a fake plugin got.
type noted struct {
	Type  string
	Env   map[string]string
	Stdin string // byte for byte
	NetNS string // the namespace that it ran in
}

func (n noted) verb() string { return n.Env["CNI_COMMAND"] }

// String is "VERB type".
func (n noted) String() string { return n.verb() + " " + n.Type }

// behaviour is what a fake plugin answers to one verb.
type behaviour struct {
	Status         int
	Stdout, Stderr string
	// Until is a file: the plugin makes that name with ".started" added and waits until Until can be read. It is a FIFO.
	Until string
}

const callsFile = "calls.jsonl"

// fakePlugin is this program as a plugin: it notes the call beside itself and answers as the file <type>.json there says, by
// default an address, or prevResult if there is one.
func fakePlugin(verb string) int {
	dir, typ := filepath.Split(os.Args[0])
	stdin, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = note(filepath.Join(dir, callsFile), typ, stdin)
	}
	answers := make(map[string]behaviour)
	if data, readErr := os.ReadFile(filepath.Join(dir, typ+".json")); err == nil && readErr == nil {
		err = json.Unmarshal(data, &answers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	b, ok := answers[verb]
	if b.Until != "" {
		if err := wait(b.Until); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
	}
	if !ok || b.Status == 0 && b.Stdout == "" {
		b.Stdout = usual(verb, stdin)
	}
	fmt.Print(b.Stdout)
	fmt.Fprint(os.Stderr, b.Stderr)
	return b.Status
}

func note(file, typ string, stdin []byte) error {
	n := noted{Type: typ, Env: make(map[string]string), Stdin: string(stdin)}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		n.Env[name] = value
	}
	var err error
	if n.NetNS, err = os.Readlink("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(raw, '\n'))
	return err
}

// wait tells that it waits and reads the FIFO until to its end.
func wait(until string) error {
	started, err := os.OpenFile(until+".started", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	started.Close()
	_, err = os.ReadFile(until)
	return err
}

// usual is the answer of a plugin that works.
func usual(verb string, stdin []byte) string {
	var conf struct {
		CNIVersion string          `json:"cniVersion"`
		PrevResult json.RawMessage `json:"prevResult"`
	}
	if err := json.Unmarshal(stdin, &conf); err != nil && verb != "VERSION" {
		return ""
	}
	switch {
	case verb == "VERSION":
		out, _ := json.Marshal(cni.VersionInfo{CNIVersion: cni.Current, Supported: cni.Versions()}) // strings alone
		return string(out)
	case verb != "ADD":
		return ""
	case conf.PrevResult != nil:
		return string(conf.PrevResult)
	case !cni.AtLeast(conf.CNIVersion, "0.3.0"):
		return fmt.Sprintf(`{"cniVersion":%q,"ip4":{"ip":"10.1.0.5/16"},"dns":{}}`, conf.CNIVersion)
	case !cni.AtLeast(conf.CNIVersion, "1.0.0"):
		return fmt.Sprintf(`{"cniVersion":%q,"ips":[{"version":"4","address":"10.1.0.5/16"}],"dns":{}}`, conf.CNIVersion)
	}
	return fmt.Sprintf(`{"cniVersion":%q,"ips":[{"address":"10.1.0.5/16"}]}`, conf.CNIVersion)
}

// fakes is a plugin folder with fake plugins.
type fakes struct {
	testing.TB
	dir string
}

func newFakes(t testing.TB, types ...string) *fakes {
	t.Helper()
	f := &fakes{t, t.TempDir()}
	f.install(types...)
	return f
}

func (f *fakes) install(types ...string) {
	f.Helper()
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	for _, typ := range types {
		if err := os.Symlink(self, filepath.Join(f.dir, typ)); err != nil {
			f.Fatal(err)
		}
	}
}

// answer sets what a plugin answers, by verb.
func (f *fakes) answer(typ string, answers map[string]behaviour) {
	f.Helper()
	data, err := json.Marshal(answers)
	if err != nil {
		f.Fatal(err)
	}
	f.write(filepath.Join(f.dir, typ+".json"), string(data))
}

func failing(code cni.Code, msg string) behaviour {
	return behaviour{Status: 1, Stdout: fmt.Sprintf(`{"cniVersion":"1.1.0","code":%d,"msg":%q}`, code, msg)}
}

func (f *fakes) write(path, text string) {
	f.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// calls returns the calls so far, and forgets them.
func (f *fakes) calls() []noted {
	f.Helper()
	file := filepath.Join(f.dir, callsFile)
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = os.Remove(file)
	}
	if err != nil {
		f.Fatal(err)
	}
	var all []noted
	for line := range strings.Lines(string(data)) {
		var n noted
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			f.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// only returns the one call that there was.
func (f *fakes) only() noted {
	f.Helper()
	all := f.calls()
	if len(all) != 1 {
		f.Fatalf("calls %v, want one", all)
	}
	return all[0]
}

// lines are the calls as "VERB type".
func (f *fakes) lines() []string {
	f.Helper()
	var all []string
	for _, n := range f.calls() {
		all = append(all, n.String())
	}
	return all
}

// has returns a member of a noted request; nil without it.
func (n noted) has(t testing.TB, key string) json.RawMessage {
	t.Helper()
	o, err := cni.ParseObject([]byte(n.Stdin))
	if err != nil {
		t.Fatalf("%s: %v: %s", n, err, n.Stdin)
	}
	value, _ := o.Get(key)
	return value
}
