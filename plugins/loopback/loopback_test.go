package loopback_test

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugins/loopback"
)

func TestPlan(t *testing.T) { plannedtest.Golden(t, loopback.Plugin(), "testdata/*.txtar") }

func TestREADME(t *testing.T) { plannedtest.README(t, loopback.Plugin(), nil) }

func FuzzParse(f *testing.F) {
	plannedtest.FuzzConfig(f, loopback.Plugin(), `{"cniVersion":"VERSION","name":"lo","type":"loopback"}`)
}
