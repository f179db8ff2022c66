package plugin_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cleat-cni/cleat/plugin"
)

// A plugin's program is plugin.Main(info, p); Process is the same with the world handed
// in.
func ExampleProcess() {
	p := plugin.Process{
		Env:    func(k string) string { return map[string]string{"CNI_COMMAND": "VERSION"}[k] },
		Stdin:  strings.NewReader(`{"cniVersion":"1.0.0"}`),
		Stdout: os.Stdout,
		Stderr: os.Stderr,
	}
	status := p.Serve(context.Background(), plugin.Info{Type: "nothing", Versions: []string{"1.0.0"}}, nil)
	fmt.Println()
	fmt.Println(status)
	// Output:
	// {"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}
	// 0
}
