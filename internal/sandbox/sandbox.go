// Package sandbox is the gate of kernel tests: they run only in the namespaces that
// sandbox.sh makes, and what a kernel lacks is skipped in one place, where CI can turn the skip into
// a failure.
package sandbox

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Require skips t outside the sandbox (CLEAT_SANDBOX, which sandbox.sh sets).
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("CLEAT_SANDBOX") != "1" {
		Need(t, "sandbox", "run it with go test -exec \"$PWD/sandbox.sh\"")
	}
}

// Need skips t because this machine lacks a feature, and says why. CLEAT_TEST_REQUIRE holds the
// features, separated by commas, whose lack is a failure instead; all means every one, and
// -vlan after it every one but vlan.
func Need(t testing.TB, feature, why string) {
	t.Helper()
	required := strings.Split(os.Getenv("CLEAT_TEST_REQUIRE"), ",")
	all := slices.Contains(required, "all") && !slices.Contains(required, "-"+feature)
	if all || slices.Contains(required, feature) {
		t.Fatalf("required here, but missing: %s: %s", feature, why)
	}
	t.Skipf("missing: %s: %s", feature, why)
}

// Timed reports whether times count: CLEAT_TIMED=1 says that the machine does nothing else. Elsewhere tests only print them. Under the
// race detector they say nothing.
func Timed() bool {
	build, ok := debug.ReadBuildInfo()
	racing := ok && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
	return os.Getenv("CLEAT_TIMED") == "1" && !racing
}
