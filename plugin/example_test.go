package plugin_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/plugin"
)

// domain is a chained plugin that says in the result where names are looked up. It makes nothing, so that most of its verbs
// have nothing to do.
type domain struct{}

func (domain) Add(_ context.Context, req *plugin.Request) (*cni.Result, error) {
	if req.Prev == nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "prevResult is missing")
	}
	res := req.Prev.Clone()
	if ok, err := req.Conf.Raw.Decode("domain", &res.DNS.Domain); err != nil || !ok {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "domain: missing or no text")
	}
	return res, nil
}

func (domain) Del(context.Context, *plugin.Request) error    { return nil }
func (domain) Check(context.Context, *plugin.Request) error  { return nil }
func (domain) GC(context.Context, *plugin.Request) error     { return nil }
func (domain) Status(context.Context, *plugin.Request) error { return nil }

// serve calls the plugin as a runtime calls a program, whose main function is plugin.Main(info, domain{}).
func serve(verb, config string) int {
	env := map[string]string{"CNI_CONTAINERID": "c1", "CNI_NETNS": "/proc/self/ns/net", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin"}
	maps.Copy(env, map[string]string{"CNI_COMMAND": verb, "CNI_NETNS_OVERRIDE": "1"}) // the example makes no namespace
	p := plugin.Process{Env: func(k string) string { return env[k] }, Stdin: strings.NewReader(config), Stdout: os.Stdout, Stderr: os.Stderr}
	status := p.Serve(context.Background(), plugin.Info{Type: "domain", Versions: []string{"1.0.0", "1.1.0"}}, domain{})
	fmt.Println()
	return status
}

// A plugin is a method a verb. Main, and Process with the world handed in, read and check the call, and print the result in the
// version of the configuration, or the error object.
func ExampleProcess() {
	const config = `{"cniVersion":"1.0.0","name":"n","type":"domain","domain":"example.org","prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"}]}}`
	fmt.Println(serve("VERSION", `{"cniVersion":"1.0.0"}`))
	fmt.Println(serve("ADD", config))
	fmt.Println(serve("ADD", strings.Replace(config, `"domain":"example.org",`, "", 1)))
	// Output:
	// {"cniVersion":"1.0.0","supportedVersions":["1.0.0","1.1.0"]}
	// 0
	// {"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"}],"dns":{"domain":"example.org"}}
	// 0
	// {"cniVersion":"1.0.0","code":7,"msg":"domain: missing or no text","plugin":"domain","verb":"ADD"}
	// 1
}

// A request that isn't one is told as the specification has it.
func ExampleNewRequest() {
	info := plugin.Info{Type: "domain"}
	config := []byte(`{"cniVersion":"1.0.0","name":"n","type":"domain"}`)
	for _, env := range []plugin.Env{
		{Command: "DEL", ContainerID: "c1", IfName: "eth0", Args: "K8S_POD_NAME=web"},
		{Command: "ADD", ContainerID: "c1"},
		{Command: "GC", Path: "/opt/cni/bin"},
	} {
		req, err := plugin.NewRequest(info, env, config)
		if err != nil {
			fmt.Println(cni.CodeOf(err), err)
			continue
		}
		pod, _ := req.Args.Get("K8S_POD_NAME")
		fmt.Println(req.Verb, req.Conf.Name, pod)
	}
	// Output:
	// DEL n web
	// 4 required env variables [CNI_NETNS,CNI_IFNAME] missing
	// 1 config version "1.0.0" does not allow GC, which came with 1.1.0
}

// A plugin that hands a part of its work to another one finds it in CNI_PATH.
func ExamplePrograms() {
	_, err := plugin.Programs{Env: os.Environ(), Stderr: os.Stderr}.Find("host-local", []string{"/nonexistent"})
	fmt.Println(err)
	// Output:
	// host-local: find plugin "host-local": not found in /nonexistent
}
