package plugin_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/plugin"
)

// TestRequired has the table of the specification (section 2, "Parameters", and each operation's): what a verb can't do without.
func TestRequired(t *testing.T) {
	names := []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH"}
	for verb, required := range map[cni.Verb][]string{
		cni.VerbAdd:     {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"},
		cni.VerbDel:     {"CNI_CONTAINERID", "CNI_IFNAME"},
		cni.VerbCheck:   {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"},
		cni.VerbGC:      {"CNI_PATH"},
		cni.VerbStatus:  {},
		cni.VerbVersion: {},
	} {
		for _, name := range names {
			t.Run(string(verb)+"-without-"+name, func(t *testing.T) {
				e := map[string]string{"CNI_COMMAND": string(verb), "CNI_CONTAINERID": "c1", "CNI_NETNS": "/proc/self/ns/net",
					"CNI_IFNAME": "eth0", "CNI_ARGS": "A=b", "CNI_PATH": "/p", "CNI_NETNS_OVERRIDE": "1"}
				e[name] = ""
				p := &fake{}
				status, stdout, _ := call(t, p, plugin.Info{Type: "fake"}, e, conf)
				if !slices.Contains(required, name) {
					if status != 0 || p.called == nil && verb != cni.VerbVersion {
						t.Errorf("refused: %s", stdout)
					}
					return
				}
				var got cni.Error
				if err := json.Unmarshal([]byte(stdout), &got); err != nil {
					t.Fatal(err)
				}
				if status != 1 || got.Code != cni.CodeInvalidEnvironment || !strings.Contains(got.Msg, name) || p.called != nil {
					t.Errorf("status %d, called %t, error %+v", status, p.called != nil, got)
				}
			})
		}
	}
}

// TestNamesDoNotMatterWithoutAttachment: GC and STATUS are about no attachment, so what a careless runtime leaves in its
// names is passed over.
func TestNamesDoNotMatterWithoutAttachment(t *testing.T) {
	for _, verb := range []string{"GC", "STATUS"} {
		p := &fake{}
		status, stdout, _ := call(t, p, plugin.Info{Type: "fake"}, env(verb, "CNI_CONTAINERID", "../x", "CNI_IFNAME", "a/b", "CNI_NETNS", "/none", "CNI_ARGS", "?"), conf)
		if status != 0 || p.called == nil {
			t.Errorf("%s: %s", verb, stdout)
		}
	}
}

// TestPanicsOfEveryVerb: each becomes an error object with code 999 in the version that was asked in.
func TestPanicsOfEveryVerb(t *testing.T) {
	for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel, cni.VerbCheck, cni.VerbGC, cni.VerbStatus} {
		t.Run(string(verb), func(t *testing.T) {
			e := env(string(verb), "CNI_NETNS", "/proc/self/ns/net", "CNI_NETNS_OVERRIDE", "1")
			status, stdout, stderr := call(t, &fake{panics: true}, plugin.Info{Type: "fake"}, e, conf)
			var got cni.Error
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatalf("%v in %q", err, stdout)
			}
			if status != 1 || got.Code != cni.CodeInternal || got.CNIVersion != "1.1.0" || !strings.Contains(got.Msg, "out of rope") || !strings.Contains(stderr, "goroutine") {
				t.Errorf("status %d, error %+v, stderr %s", status, got, stderr)
			}
		})
	}
}

// TestResultInEveryVersion: a result has the form of the version that was asked in.
func TestResultInEveryVersion(t *testing.T) {
	for _, version := range cni.Versions() {
		t.Run(version, func(t *testing.T) {
			e := env("ADD", "CNI_NETNS", "/proc/self/ns/net", "CNI_NETNS_OVERRIDE", "1")
			status, stdout, _ := call(t, &fake{}, plugin.Info{Type: "fake"}, e, strings.Replace(conf, "1.1.0", version, 1))
			var got struct {
				CNIVersion string
				IP4        *struct{ IP string }
				IPs        []struct{ Version, Address string }
			}
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 || got.CNIVersion != version {
				t.Fatalf("status %d, %v: %s", status, err, stdout)
			}
			families, lists := !cni.AtLeast(version, "0.3.0"), cni.AtLeast(version, "0.3.0")
			if families != (got.IP4 != nil) || lists != (len(got.IPs) == 1) {
				t.Errorf("form of another version: %s", stdout)
			}
			if lists && (got.IPs[0].Version != "") == cni.AtLeast(version, "1.0.0") {
				t.Errorf("version of an address: %s", stdout)
			}
		})
	}
}
