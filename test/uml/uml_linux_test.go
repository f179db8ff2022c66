package uml

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

// TestControlGroupsOfVersion2 runs the tests of control groups, and of the pods and containers of the node agent, where version 2 alone is
// mounted.
func TestControlGroupsOfVersion2(t *testing.T) {
	if os.Getenv("CLEAT_UML") == "" {
		sandbox.Need(t, "uml", "run it with make uml")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "cleat-cni")
	build(t, "build", "-buildvcs=false", "-o", program, "github.com/cleat-cni/cleat/cmd/cleat-cni")
	for _, name := range []string{"cgroup", "native"} {
		t.Run(name, func(t *testing.T) {
			test := filepath.Join(dir, name+".test")
			build(t, "test", "-c", "-o", test, "github.com/cleat-cni/cleat/internal/agent/"+name)
			cmd := exec.Command("../../uml.sh", test, "-test.v", "-test.timeout=3m")
			cmd.Env = append(os.Environ(), "CLEAT_TEST_PROGRAM="+program, "CLEAT_TEST_REQUIRE=sandbox,cgroup,runc,busybox")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// build runs go for programs that need no library of the machine.
func build(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, out)
	}
}
