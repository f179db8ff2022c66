package plugintest_test

import (
	"testing"

	"github.com/cleat-cni/cleat/plugin/plugintest"
	"github.com/cleat-cni/cleat/plugins/portmap"
)

// A plugin's test: the plugin, a configuration, and for one that stands behind another what that one gave.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestSpec(t *testing.T)
		plugintest.Run(t, plugintest.Case{
			Planned: portmap.Plugin(),
			Prev:    plugintest.Attached("10.88.0.5/16"),
			Config:  `{"type":"portmap","runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}}`,
			Stays:   []string{"host sysctl net/ipv4/conf/veth0/"},
			Refused: []string{`{"type":"portmap","runtimeConfig":{"portMappings":[{"hostPort":70000,"containerPort":80,"protocol":"tcp"}]}}`},
		})
	}
}
