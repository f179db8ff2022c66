// Command reference is the reference's runtime library in a process of its own, which attaches and detaches as it is told and
// says how long the library took: the start of a program is not in the time, but for the plugins, which the library starts.
//
//	reference CONFLIST PLUGINS CACHE
//
// reads lines "ADD container netns port" or DEL, and answers each with nanoseconds, or with an error and status 1.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/containernetworking/cni/libcni"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want a configuration, a folder of plugins and one of records, have %q", args)
	}
	list, err := libcni.ConfListFromFile(args[0])
	if err != nil {
		return err
	}
	cni := libcni.NewCNIConfigWithCacheDir([]string{args[1]}, args[2], nil)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		took, err := run(cni, list, lines.Text())
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		fmt.Println(took.Nanoseconds())
	}
	return lines.Err()
}

func run(cni *libcni.CNIConfig, list *libcni.NetworkConfigList, line string) (time.Duration, error) {
	var verb, container, netns string
	var port int
	if _, err := fmt.Sscan(line, &verb, &container, &netns, &port); err != nil {
		return 0, err
	}
	mapping := func(host, pod int) map[string]any {
		return map[string]any{"hostPort": host, "containerPort": pod, "protocol": "tcp"}
	}
	rt := &libcni.RuntimeConf{ContainerID: container, NetNS: netns, IfName: "eth0",
		CapabilityArgs: map[string]any{"portMappings": []any{mapping(port, 80), mapping(port+1, 81)}}}
	start := time.Now()
	var err error
	if verb == "ADD" {
		_, err = cni.AddNetworkList(context.Background(), list, rt)
	} else {
		err = cni.DelNetworkList(context.Background(), list, rt)
	}
	return time.Since(start), err
}
