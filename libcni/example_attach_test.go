package libcni_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// attach attaches a container to the network pods, and detaches it again.
func attach(ctx context.Context) error {
	runtime, err := libcni.New(libcni.Config{PluginDirs: []string{"/opt/cni/bin"}})
	if err != nil {
		return err
	}
	network, err := libcni.LoadConfList("/etc/cni/net.d", "pods")
	if err != nil {
		return err
	}
	container := &libcni.RuntimeConf{
		ContainerID: "web-1", NetNS: "/run/netns/blue", IfName: "eth0",
		CapabilityArgs: map[string]any{
			"portMappings": []cni.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}},
		},
	}
	result, err := runtime.AddNetworkList(ctx, network, container)
	if err != nil {
		return err // nothing is left: a failed ADD is undone
	}
	fmt.Println(result.IPs[0].Address)
	return runtime.DelNetworkList(ctx, network, container)
}

// What a runtime does, with the programs and the configuration of this machine.
func ExampleCNI_AddNetworkList() {
	if err := attach(context.Background()); err != nil {
		log.Print(err)
	}
}
