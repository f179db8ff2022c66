package libcni_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// A network with one plugin, which is a shell script here, is attached to a container and detached again.
func Example() {
	dir, err := os.MkdirTemp("", "libcni")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	script := `#!/bin/sh
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.1.0","ips":[{"address":"10.88.0.5/16"}]}'
`
	if err := os.WriteFile(filepath.Join(dir, "example"), []byte(script), 0o755); err != nil {
		fmt.Println(err)
		return
	}

	runtime, err := libcni.New(libcni.Config{
		PluginDirs: []string{dir},
		StateDir:   filepath.Join(dir, "state"),
		LockDir:    filepath.Join(dir, "lock"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := libcni.ConfListFromBytes([]byte(`{"cniVersion": "1.1.0", "name": "pods", "plugins": [{"type": "example"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	attachment := &libcni.RuntimeConf{
		ContainerID: "c1",
		NetNS:       "/run/netns/c1",
		IfName:      "eth0",
		Args:        cni.Args{{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", "web"}},
	}
	ctx := context.Background()
	result, err := runtime.AddNetworkList(ctx, list, attachment)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("address:", result.IPs[0].Address)
	recorded, err := runtime.GetCachedAttachments("c1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("recorded:", recorded[0].Network, recorded[0].IfName, recorded[0].Args)
	if err := runtime.DelNetworkList(ctx, list, attachment); err != nil {
		fmt.Println(err)
		return
	}
	recorded, err = runtime.GetCachedAttachments("c1")
	fmt.Println("after DEL:", len(recorded), err)
	// Output:
	// address: 10.88.0.5/16
	// recorded: pods eth0 IgnoreUnknown=1;K8S_POD_NAME=web
	// after DEL: 0 <nil>
}

// A folder with a faulty file: the others are used, and the error of a name that isn't found tells of it.
func ExampleLoadConfList() {
	dir, err := os.MkdirTemp("", "net.d")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"10-pods.conflist":  `{"name": "pods", "plugins": [{"type": "bridge"}]}`,
		"20-other.conflist": `{"name": "other", "plugins": [{"type": "bridge"},]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	folder, err := libcni.LoadDir(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("default:", folder.Default().Name)
	for _, f := range folder.Ignored {
		fmt.Println("ignored:", filepath.Base(f.File))
	}
	_, err = libcni.LoadConfList(dir, "other")
	fmt.Println(err != nil)
	// Output:
	// default: pods
	// ignored: 20-other.conflist
	// true
}

// Members are set in a plugin's configuration; what else it holds stays as it was written.
func ExampleInjectConf() {
	conf, err := libcni.ConfFromBytes([]byte(`{"type": "bridge", "mtu": 1.5e3}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	conf, err = libcni.InjectConf(conf, map[string]any{"name": "pods", "bridge": "cni7"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(conf.Bytes))
	// Output:
	// {"type":"bridge","mtu":1.5e3,"bridge":"cni7","name":"pods"}
}
