package main

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugin/plugintest"
)

func spec() plugintest.Case {
	return plugintest.Case{
		Planned: definition(),
		Prev:    plugintest.Attached("10.88.0.5/16"),
		Config:  `{"type":"static-route","routes":[{"dst":"10.20.0.0/16","gw":"10.88.0.1"}]}`,
		Want:    []string{"pod  route 10.20.0.0/16 via 10.88.0.1 dev eth0"},
		Refused: []string{`{"type":"static-route"}`, `{"type":"static-route","routes":[{"dst":"10.20.0.1/16","gw":"10.88.0.1"}]}`},
	}
}

func TestSpec(t *testing.T) { plugintest.Run(t, spec()) }

func TestSpecOnThisKernel(t *testing.T) {
	c := spec()
	c.Scratch = true
	plugintest.Run(t, c)
}

func TestPlan(t *testing.T) { plannedtest.Golden(t, definition(), "testdata/*.txtar") }

func TestREADME(t *testing.T) { plannedtest.README(t, definition(), nil) }

func FuzzParse(f *testing.F) {
	plannedtest.FuzzConfig(f, definition(), `{"cniVersion":"VERSION","name":"n","type":"static-route","routes":[{"dst":"fd01::/64","gw":"fd00::1"}]}`)
}
