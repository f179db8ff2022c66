package cni_test

import (
	"fmt"
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
)

func ExampleParseNetwork() {
	network, err := cni.ParseNetwork([]byte(`{
  "cniVersion": "1.0.0",
  "name": "net1",
  "plugins": [
    {"type": "bridge", "bridge": "cni0", "ipam": {"type": "host-local"}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range network.Plugins {
		fmt.Printf("%s %s %q\n", network.Name, p.Type, p.IPAMType)
	}

	_, err = cni.ParseNetwork([]byte("{\n  \"name\": \"net1\",\n  \"plugins\": [{\"type\": \"bridge\"},]\n}"))
	fmt.Println(err)
	// Output:
	// net1 bridge "host-local"
	// net1 portmap ""
	// line 3, column 33: trailing comma: remove the , before ]; near: ns": [{"type": "bridge"},]
}

func ExampleResult_Encode() {
	result := &cni.Result{
		Interfaces: []cni.Interface{{Name: "eth0", MTU: 1450, Sandbox: "/run/netns/pod1"}},
		IPs: []cni.IP{{
			Interface: cni.Some(0),
			Address:   netip.MustParsePrefix("10.88.0.5/16"),
			Gateway:   netip.MustParseAddr("10.88.0.1"),
		}},
	}
	for _, version := range []string{"1.1.0", "0.4.0", "0.2.0"} {
		text, err := result.Encode(version)
		fmt.Println(string(text), err)
	}
	// Output:
	// {"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mtu":1450,"sandbox":"/run/netns/pod1"}],"ips":[{"interface":0,"address":"10.88.0.5/16","gateway":"10.88.0.1"}]} <nil>
	// {"cniVersion":"0.4.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/pod1"}],"ips":[{"version":"4","interface":0,"address":"10.88.0.5/16","gateway":"10.88.0.1"}],"dns":{}} <nil>
	// {"cniVersion":"0.2.0","ip4":{"ip":"10.88.0.5/16","gateway":"10.88.0.1"},"dns":{}} <nil>
}

func ExampleNegotiate() {
	version, err := cni.Negotiate("0.4.0", []string{"1.0.0", "2.0.0"})
	fmt.Println(version, err)

	_, err = cni.Negotiate("2.0.0", nil)
	fmt.Println(err, cni.CodeOf(err))
	// Output:
	// 1.0.0 <nil>
	// specification version 2.0.0: not spoken here; spoken are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0 1
}

func ExampleParseArgs() {
	args, err := cni.ParseArgs("IP=10.88.0.5;FOO=bar")
	if err != nil {
		fmt.Println(err)
		return
	}
	ip, _ := args.Get("IP")
	fmt.Println(ip)
	fmt.Println(args.Only("IP", "MAC"))
	// Output:
	// 10.88.0.5
	// CNI_ARGS: unknown keys: FOO
}
