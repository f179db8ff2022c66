package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
)

func runtimeTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"RT1":  testPluginsNetNS,
		"RT2":  testContainersNetNS,
		"RT3":  testOneAtATime,
		"RT4":  testGCExcludes,
		"RT5":  testFailedAddGetsDel,
		"RT6":  testSecondAdd,
		"RT7":  testDelHasAddsConfig,
		"RT8":  testRuntimeDelRepeats,
		"RT9":  testPath,
		"RT10": testAddOrder,
		"RT11": testMissingProgram,
		"RT12": testFirstErrorOfAdd,
		"RT13": testResultIsStored,
		"RT14": testDelOrder,
		"RT15": testCheckOrder,
		"RT16": testCheckOfUnknown,
		"RT17": testCheckHasPrev,
		"RT18": testGCRunsAll,
		"RT19": testGCHasList,
		"RT20": testGCDeletesStale,
		"RT21": testNameAndVersion,
		"RT22": testRuntimeConfig,
		"RT23": func(r ruleTest) {
			if got := request(r, `,"capabilities":{"mac":true}`, nil).has(r, "capabilities"); got != nil {
				r.Errorf("capabilities reached the plugin: %s", got)
			}
		},
		"RT24": testPassThrough,
		"RT25": testVariables,
	}
}

func testPluginsNetNS(r ruleTest) {
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		r.Fatal(err)
	}
	if got := request(r, "", nil).NetNS; got != own {
		r.Errorf("the plugin ran in %s, the runtime in %s", got, own)
	}
}

func testContainersNetNS(r ruleTest) {
	sandbox.Require(r.T)
	c := newRuntime(r, "fake-a")
	l := ofTypes(r, cni.Current, "fake-a")
	rt := attachment()
	rt.NetNS = ""
	if _, err := c.AddNetworkList(r.Context(), l, rt); cni.CodeOf(err) != cni.CodeInvalidEnvironment {
		r.Errorf("ADD without a namespace: %v", err)
	}
	c.ran("ADD without a namespace")
	path := filepath.Join(r.TempDir(), "ns")
	ns, err := netns.Mount(path)
	if err != nil {
		r.Fatal(err)
	}
	defer func() {
		if err := errors.Join(netns.Unmount(path), ns.Close()); err != nil {
			r.Error(err)
		}
	}()
	rt.NetNS = path
	c.add(l, rt)
	c.del(l, rt)
	if err := c.GCNetworkList(r.Context(), l, &libcni.GCArgs{}); err != nil {
		r.Error(err)
	}
	again, err := netns.Open(path)
	if err != nil {
		r.Fatalf("the container's namespace is gone: %v", err)
	}
	again.Close()
}

func testFailedAddGetsDel(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b", "fake-c")
	c.answer("fake-b", map[string]behaviour{"ADD": failing(142, "no")})
	if _, err := c.AddNetworkList(r.Context(), ofTypes(r, cni.Current, "fake-a", "fake-b", "fake-c"), attachment()); cni.CodeOf(err) != 142 {
		r.Errorf("error %v", err)
	}
	c.ran("ADD", "ADD fake-a", "ADD fake-b", "DEL fake-b", "DEL fake-a")
}

func testSecondAdd(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := ofTypes(r, cni.Current, "fake-a")
	c.add(l, attachment())
	if _, err := c.AddNetworkList(r.Context(), l, attachment()); err == nil {
		r.Error("a second ADD succeeded")
	}
	second := attachment()
	second.IfName = "net1"
	c.add(l, second)
	c.del(l, attachment())
	c.add(l, attachment())
	c.ran("all of it", "ADD fake-a", "ADD fake-a", "DEL fake-a", "ADD fake-a")
}

func testDelHasAddsConfig(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b")
	c.add(list(r, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a","key":"as added"}]}`), attachment())
	c.calls()
	c.del(list(r, `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"fake-a","key":"changed"},{"type":"fake-b"}]}`), attachment())
	if n := c.only(); string(n.has(r, "key")) != `"as added"` || string(n.has(r, "cniVersion")) != `"1.1.0"` {
		r.Errorf("%s with %s", n, n.Stdin)
	}
}

func testRuntimeDelRepeats(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := ofTypes(r, cni.Current, "fake-a")
	c.del(l, attachment()) // never added
	c.add(l, attachment())
	for range 3 {
		c.del(l, attachment())
	}
	c.ran("all of it", "DEL fake-a", "ADD fake-a", "DEL fake-a", "DEL fake-a", "DEL fake-a")
}

func testPath(r ruleTest) {
	empty, second := r.TempDir(), newFakes(r, "fake-a")
	c := runtimeOn(second, r.TempDir(), empty, filepath.Join(empty, "not-there"))
	c.add(ofTypes(r, cni.Current, "fake-a"), attachment())
	n := c.only()
	want := strings.Join([]string{empty, filepath.Join(empty, "not-there"), second.dir}, string(os.PathListSeparator))
	if n.Env["CNI_PATH"] != want {
		r.Errorf("CNI_PATH %q, want %q", n.Env["CNI_PATH"], want)
	}
}

// addresses gives each plugin a result of its own.
func (r *runtime) addresses(types ...string) {
	r.Helper()
	for i, typ := range types {
		r.answer(typ, map[string]behaviour{"ADD": {Stdout: fmt.Sprintf(`{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.%d/24"}]}`, i+1)}})
	}
}

func result(i int) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.%d/24"}]}`, i)
}

func testAddOrder(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b", "fake-c")
	c.addresses("fake-a", "fake-b", "fake-c")
	got := c.add(ofTypes(r, cni.Current, "fake-a", "fake-b", "fake-c"), attachment())
	if got.IPs[0].Address.String() != "10.1.0.3/24" {
		r.Errorf("result %+v", got)
	}
	calls := c.calls()
	if diff := cmp.Diff([]string{"ADD fake-a", "ADD fake-b", "ADD fake-c"}, each(calls, noted.String)); diff != "" {
		r.Fatalf("order (-want +got)\n%s", diff)
	}
	if prev := calls[0].has(r, "prevResult"); prev != nil {
		r.Errorf("the first plugin got prevResult %s", prev)
	}
	for i, n := range calls[1:] {
		sameJSON(r, "prevResult of "+n.Type, []byte(result(i+1)), n.has(r, "prevResult"))
	}
}

func each[T, U any](list []T, f func(T) U) []U {
	var all []U
	for _, v := range list {
		all = append(all, f(v))
	}
	return all
}

func testMissingProgram(r ruleTest) {
	ctx := r.Context()
	for verb, run := range map[string]func(*runtime, *libcni.NetworkConfigList) error{
		"ADD": func(c *runtime, l *libcni.NetworkConfigList) error {
			rt := attachment()
			rt.IfName = "net1"
			_, err := c.AddNetworkList(ctx, l, rt)
			return err
		},
		"DEL":   func(c *runtime, l *libcni.NetworkConfigList) error { return c.DelNetworkList(ctx, l, attachment()) },
		"CHECK": func(c *runtime, l *libcni.NetworkConfigList) error { return c.CheckNetworkList(ctx, l, attachment()) },
		"GC": func(c *runtime, l *libcni.NetworkConfigList) error {
			return c.GCNetworkList(ctx, l, &libcni.GCArgs{ValidAttachments: []cni.Attachment{{ContainerID: "spec-one", IfName: "eth0"}}})
		},
	} {
		c := newRuntime(r, "fake-a", "fake-b")
		l := ofTypes(r, cni.Current, "fake-a", "fake-b")
		c.add(l, attachment())
		if err := os.Remove(filepath.Join(c.dir, "fake-b")); err != nil {
			r.Fatal(err)
		}
		c.calls()
		if err := run(c, l); err == nil || !errors.Is(err, os.ErrNotExist) || cni.AsError(err).Plugin != "fake-b" {
			r.Errorf("%s: %v", verb, err)
		}
		if verb == "ADD" {
			c.ran("ADD with a missing program")
		}
	}
}

func testFirstErrorOfAdd(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b", "fake-c")
	c.answer("fake-b", map[string]behaviour{"ADD": {Status: 1, Stdout: `{"cniVersion":"1.1.0","code":142,"msg":"no rope","details":"at all"}`}})
	_, err := c.AddNetworkList(r.Context(), ofTypes(r, cni.Current, "fake-a", "fake-b", "fake-c"), attachment())
	if e := cni.AsError(err); e == nil || e.Code != 142 || e.Plugin != "fake-b" || e.Details != "at all" || !strings.Contains(e.Msg, "no rope") {
		r.Errorf("error %+v", e)
	}
	if got := c.lines(); slices.Contains(got, "ADD fake-c") {
		r.Errorf("ran %q", got)
	}
}

func testResultIsStored(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b")
	c.addresses("fake-a", "fake-b")
	l := ofTypes(r, cni.Current, "fake-a", "fake-b")
	c.add(l, attachment())
	later := runtimeOn(c.fakes, c.state)
	got, err := later.GetNetworkListCachedResult(l, attachment())
	if err != nil || got == nil || got.IPs[0].Address.String() != "10.1.0.2/24" {
		r.Errorf("result %+v, error %v", got, err)
	}
}

func testDelOrder(r ruleTest) {
	for _, v := range cni.Versions() {
		c := newRuntime(r, "fake-a", "fake-b", "fake-c")
		l := ofTypes(r, v, "fake-a", "fake-b", "fake-c")
		c.add(l, attachment())
		added := c.calls()
		if len(added) != 3 {
			r.Fatalf("ADD ran %v", added)
		}
		stored := added[2].has(r, "prevResult")
		c.answer("fake-b", map[string]behaviour{"DEL": failing(142, "not now")})
		if err := c.DelNetworkList(r.Context(), l, attachment()); cni.CodeOf(err) != 142 {
			r.Errorf("error %v", err)
		}
		c.ran("DEL", "DEL fake-c", "DEL fake-b")
		c.answer("fake-b", nil)
		c.del(l, attachment())
		calls := c.calls()
		if diff := cmp.Diff([]string{"DEL fake-c", "DEL fake-b", "DEL fake-a"}, each(calls, noted.String)); diff != "" {
			r.Errorf("order (-want +got)\n%s", diff)
		}
		for _, n := range calls {
			switch prev := n.has(r, "prevResult"); {
			case !cni.AtLeast(v, "0.4.0") && prev != nil:
				r.Errorf("version %s: %s got prevResult %s", v, n, prev)
			case cni.AtLeast(v, "0.4.0"):
				sameJSON(r, v+": prevResult of "+n.String(), stored, prev)
			}
		}
	}
}

func testCheckOrder(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b", "fake-c")
	c.addresses("fake-a", "fake-b", "fake-c")
	l := list(r, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a","capabilities":{"mac":true}},{"type":"fake-b"},{"type":"fake-c"}]}`)
	rt := attachment()
	rt.Args, rt.CapabilityArgs = cni.Args{{"A", "1"}}, map[string]any{"mac": "02:00:00:00:00:01"}
	c.add(l, rt)
	added := c.calls()
	if err := c.CheckNetworkList(r.Context(), l, attachment()); err != nil { // which does not name the parameters again
		r.Fatal(err)
	}
	checked := c.calls()
	if diff := cmp.Diff([]string{"CHECK fake-a", "CHECK fake-b", "CHECK fake-c"}, each(checked, noted.String)); diff != "" {
		r.Fatalf("order (-want +got)\n%s", diff)
	}
	for i, n := range checked {
		for _, name := range []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"} {
			if n.Env[name] != added[i].Env[name] {
				r.Errorf("%s: %s is %q, was %q", n, name, n.Env[name], added[i].Env[name])
			}
		}
		sameJSON(r, "prevResult of "+n.String(), []byte(result(3)), n.has(r, "prevResult"))
		if diff := cmp.Diff(string(added[i].has(r, "runtimeConfig")), string(n.has(r, "runtimeConfig"))); diff != "" {
			r.Errorf("runtimeConfig (-ADD +CHECK)\n%s", diff)
		}
	}
	c.answer("fake-b", map[string]behaviour{"CHECK": failing(142, "it is gone")})
	if err := c.CheckNetworkList(r.Context(), l, rt); cni.CodeOf(err) != 142 {
		r.Errorf("error %v", err)
	}
	c.ran("CHECK that fails", "CHECK fake-a", "CHECK fake-b")
}

func testCheckOfUnknown(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := ofTypes(r, cni.Current, "fake-a")
	check := func(when string) {
		r.Helper()
		if err := c.CheckNetworkList(r.Context(), l, attachment()); cni.CodeOf(err) != cni.CodeUnknownContainer {
			r.Errorf("CHECK %s: %v", when, err)
		}
	}
	check("before ADD")
	c.add(l, attachment())
	c.del(l, attachment())
	check("after DEL")
	c.ran("all of it", "ADD fake-a", "DEL fake-a")
}

// testUnknownContainer is code 3: the runtime's own, since plugins know containers by their requests alone.
func testUnknownContainer(r ruleTest) { testCheckOfUnknown(r) }

func testCheckHasPrev(r ruleTest) {
	for name, spoil := range map[string]func(c *runtime, record string) error{
		"lost":    func(_ *runtime, record string) error { return os.Remove(record) },
		"empty":   func(_ *runtime, record string) error { return os.WriteFile(record, nil, 0o600) },
		"corrupt": func(_ *runtime, record string) error { return os.WriteFile(record, []byte("{"), 0o600) },
	} {
		c := newRuntime(r, "fake-a")
		l := ofTypes(r, cni.Current, "fake-a")
		c.add(l, attachment())
		c.calls()
		if err := c.CheckNetworkList(r.Context(), l, attachment()); err != nil {
			r.Fatal(err)
		}
		if n := c.only(); n.has(r, "prevResult") == nil {
			r.Errorf("CHECK had no prevResult: %s", n.Stdin)
		}
		if err := spoil(c, c.record()); err != nil {
			r.Fatal(err)
		}
		if err := c.CheckNetworkList(r.Context(), l, attachment()); err == nil {
			r.Errorf("CHECK with a record that is %s succeeded", name)
		}
		c.ran("CHECK with a record that is " + name)
		c.del(l, attachment())
	}
}

// record is the path of attachment's record.
func (r *runtime) record() string {
	return filepath.Join(r.state, "results", network+"-spec-one-eth0")
}

func testNameAndVersion(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := list(r, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a","name":"another","cniVersion":"0.1.0"}]}`)
	c.add(l, attachment())
	ctx := r.Context()
	if err := errors.Join(c.CheckNetworkList(ctx, l, attachment()), c.GetStatusNetworkList(ctx, l), c.DelNetworkList(ctx, l, attachment()),
		c.GCNetworkList(ctx, l, &libcni.GCArgs{})); err != nil {
		r.Fatal(err)
	}
	calls := c.calls()
	if len(calls) != 5 {
		r.Errorf("calls %v", calls)
	}
	for _, n := range calls {
		if string(n.has(r, "name")) != `"n"` || string(n.has(r, "cniVersion")) != `"1.1.0"` {
			r.Errorf("%s got %s", n, n.Stdin)
		}
	}
}

func testRuntimeConfig(r ruleTest) {
	ports := []cni.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}
	given := func(rt *libcni.RuntimeConf) {
		rt.CapabilityArgs = map[string]any{"portMappings": ports, "mac": "02:00:00:00:00:01", "big": json.RawMessage("9007199254740993")}
	}
	for _, tc := range []struct{ name, members, want string }{
		{"declared-and-given", `,"capabilities":{"portMappings":true,"big":true,"bandwidth":true}`, `{"big":9007199254740993,"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}`},
		{"declared-false", `,"capabilities":{"mac":false}`, ""},
		{"not-declared", ``, ""},
	} {
		if got := string(request(r, tc.members, given).has(r, "runtimeConfig")); got != tc.want {
			r.Errorf("%s: runtimeConfig %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := request(r, `,"capabilities":{"mac":true}`, nil).has(r, "runtimeConfig"); got != nil {
		r.Errorf("nothing given: runtimeConfig %s", got)
	}
}

func testPassThrough(r ruleTest) {
	got := request(r, `,"cni.dev/x":1,"CNI.dev":2,"cni.devel":3,"ipam":{"type":"x","cni.dev/inner":4}`, nil)
	for key, want := range map[string]string{"cni.dev/x": "", "CNI.dev": "2", "cni.devel": "3", "ipam": `{"type":"x","cni.dev/inner":4}`} {
		if value := string(got.has(r, key)); value != want {
			r.Errorf("%s: %q, want %q", key, value, want)
		}
	}
}

func testVariables(r ruleTest) {
	r.Setenv("CNI_IFNAME", "from the caller's own environment")
	got := request(r, "", func(rt *libcni.RuntimeConf) { rt.Args = cni.Args{{"IgnoreUnknown", "1"}, {"A", "b=c"}} })
	for name, want := range map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "spec-one", "CNI_NETNS": "/proc/self/ns/net", "CNI_IFNAME": "eth0", "CNI_ARGS": "IgnoreUnknown=1;A=b=c",
		"PATH": os.Getenv("PATH"),
	} {
		if got.Env[name] != want {
			r.Errorf("%s=%q, want %q", name, got.Env[name], want)
		}
	}
	if got.Env["CNI_PATH"] == "" {
		r.Error("CNI_PATH is empty")
	}
}
