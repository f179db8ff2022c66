package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
)

// pinned is a behaviour that the suites of the reference implementation pin beyond the specification.
type pinned struct {
	area, name string
	test       func(ruleTest)
	by         string // what tests it instead: rules of the checklist, or "folder TestName" of another package; may be several, with commas
}

// pins are those of the runtime library, the plugin SDK, the running of programs, host-local and bridge.
func pins() []pinned {
	return []pinned{
		{area: "libcni", name: "runtime-config-if-declared-and-given", by: "RT22"},
		{area: "libcni", name: "commands-and-errors", by: "RT10,RT12,RT14,RT15"},
		{area: "libcni", name: "no-record-when-a-plugin-fails", test: pinNoRecord},
		{area: "libcni", name: "record-that-cant-be-written", by: "libcni TestB093RecordThatCantBeWritten"},
		{area: "libcni", name: "check-below-0.4.0", test: pinCheckVersion},
		{area: "libcni", name: "del-prev-result-by-version", by: "RT14"},
		{area: "libcni", name: "del-removes-the-record", test: pinDelRemovesRecord},
		{area: "libcni", name: "del-with-a-corrupt-record", by: "libcni TestB002UnusableRecord"},
		{area: "libcni", name: "del-with-a-result-of-another-version", by: "libcni TestInconvertibleRecord"},
		{area: "libcni", name: "a-record-for-each-attachment", test: pinRecords},
		{area: "libcni", name: "names-missing", test: pinNamesMissing},
		{area: "libcni", name: "gc-deletes-then-collects", by: "RT20"},
		{area: "libcni", name: "status-code-passes", test: pinStatusCode},
		{area: "libcni", name: "context-ends-every-call", test: pinContexts},
		{area: "libcni", name: "files", test: pinFiles},
		{area: "libcni", name: "flags-as-text", by: "CF18"},
		{area: "libcni", name: "only-inlined-matrix", test: pinOnlyInlined},
		{area: "libcni", name: "versions", by: "VE1"},
		{area: "libcni", name: "plugin-of-0.1.0", test: pinOldPlugin},

		{area: "skel", name: "variables-by-verb", by: "MX1"},
		{area: "skel", name: "no-version-is-0.1.0", by: "VE5"},
		{area: "skel", name: "bad-name-is-code-7", by: "ID2"},
		{area: "skel", name: "version-waits-for-no-input", test: pinVersionWithoutInput},
		{area: "skel", name: "about", test: pinAbout},
		{area: "skel", name: "errors-keep-their-code", by: "DP4,plugin TestServeRefuses"},
		{area: "skel", name: "own-namespace-refused", by: "EC8"},
		{area: "skel", name: "own-namespace-allowed-by-variable", test: pinOverride},

		{area: "invoke", name: "stderr-forwarded", test: pinStderr},
		{area: "invoke", name: "error-object", by: "internal/pluginexec TestB023ErrorObject"},
		{area: "invoke", name: "no-error-object", by: "internal/pluginexec TestB024NoErrorObject"},
		{area: "invoke", name: "separators-refused", by: "CF12,internal/pluginexec TestB084Traversal"},
		{area: "invoke", name: "delegates-get-their-own-command", by: "DP4,DP5"},
		{area: "invoke", name: "versions-of-five-generations", test: pinGenerations},

		{area: "host-local", name: "ranges-and-sets", test: pinSets},
		{area: "host-local", name: "a-lease-for-each-interface", test: pinInterfaces},
		{area: "host-local", name: "second-add", test: pinSecondLease},
		{area: "host-local", name: "files-of-older-versions", test: pinLegacyLease},
		{area: "host-local", name: "unknown-del", by: "PL10"},
		{area: "host-local", name: "asked-for", test: pinAskedFor},
		{area: "host-local", name: "asked-for-in-vain", test: pinAskedInVain},
		{area: "host-local", name: "gc-by-interface", test: pinGCByInterface},
		{area: "host-local", name: "gc-of-all-keeps-the-books", test: pinGCAll},
		{area: "host-local", name: "gc-of-files-of-older-versions", test: pinGCLegacy},

		{area: "bridge", name: "vlan-and-trunk", by: "plugins TestB048VLANs,plugins TestVLANGatewayIsShared"},
		{area: "bridge", name: "steady-mac", test: pinSteadyMAC},
		{area: "bridge", name: "mac-from-three-sources", test: pinMACSources},
		{area: "bridge", name: "masquerade", by: "CF16,plugins TestB061PodsTalk"},
		{area: "bridge", name: "spoof-check", by: "plugins TestSpoofedFramesAreDropped"},
		{area: "bridge", name: "isolation", by: "plugins TestIsolatedPorts"},
		{area: "bridge", name: "container-interface-down", test: pinInterfaceDown},
		{area: "bridge", name: "address-given-back-after-an-error", test: pinAddressGivenBack},
		{area: "bridge", name: "del-of-what-is-not-there", by: "PL10"},
		{area: "bridge", name: "address-of-the-bridge-forced", by: "plugins TestB037ForcedAddress"},
	}
}

// TestPinned runs the tests of the pinned behaviours, checks that what is said to test the others is there, and prints the list.
func TestPinned(t *testing.T) {
	var list strings.Builder
	w := tabwriter.NewWriter(&list, 0, 0, 2, ' ', 0)
	for _, p := range pins() {
		by := p.by
		if p.test != nil {
			by = "here"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.area, p.name, by)
		t.Run(p.area+"/"+p.name, func(t *testing.T) {
			switch {
			case (p.test == nil) == (p.by == ""):
				t.Errorf("test %v, by %q: it has to be one of the two", p.test != nil, p.by)
			case p.test != nil:
				p.test(ruleTest{t, newSeen()})
			default:
				for by := range strings.SplitSeq(p.by, ",") {
					checkTested(t, by)
				}
			}
		})
	}
	w.Flush() // into memory
	t.Log("\n" + list.String())
}

// checkTested checks that a rule, or a test of another package, is there.
func checkTested(t *testing.T, by string) {
	t.Helper()
	dir, name, other := strings.Cut(by, " ")
	if !other {
		if ruleTests()[by] == nil {
			t.Errorf("no rule %s", by)
		}
		return
	}
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return
		}
	}
	t.Errorf("no %s in %s", name, dir)
}
