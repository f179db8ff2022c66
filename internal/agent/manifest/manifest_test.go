package manifest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func source() Source { return Source{Kind: File, Name: "pod.yaml", Node: "Node1"} }

// simple is a manifest with lines behind it.
func simple(lines ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: c\n    command: [sleep]\n" + strings.Join(lines, "\n")
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestParseGivesDefaults(t *testing.T) {
	for _, name := range []string{"full", "small"} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			pods, err := Parse(source(), raw)
			if err != nil {
				t.Fatal(err)
			}
			out, err := yaml.Marshal(pods)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".want.yaml", out)
		})
	}
}

// TestParseReads is about texts that are read: each holds pods of these names.
func TestParseReads(t *testing.T) {
	item := "{metadata: {name: %s}, spec: {containers: [{name: c, command: [sleep]}]}}"
	full := "{apiVersion: v1, kind: Pod, " + item[1:]
	inJSON := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"c",` + "\n\t" + `"command":["\ud83d\ude00\/"]}]}}`
	tests := []struct {
		name, text string
		want       []string
	}{
		{"one", simple(), []string{"web"}},
		{"byte-order-mark", "\ufeff" + simple(), []string{"web"}},
		{"crlf", strings.ReplaceAll(simple(), "\n", "\r\n"), []string{"web"}},
		{"documents-and-empty-ones", "---\n# nothing\n---\n" + simple() + "\n---\n" + fmt.Sprintf(full, "b") + "\n...\n", []string{"web", "b"}},
		{"pod-list", "apiVersion: v1\nkind: PodList\nitems:\n- " + fmt.Sprintf(item, "a") + "\n- " + fmt.Sprintf(full, "b"), []string{"a", "b"}},
		{"list", "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\nitems:\n- " + fmt.Sprintf(full, "a"), []string{"a"}},
		{"empty-list", "apiVersion: v1\nkind: PodList\nitems: []", nil},
		{"json-with-tabs-and-escapes", fmt.Sprintf(inJSON, "a"), []string{"a"}},
		{"json-values", fmt.Sprintf(inJSON, "a") + "\n" + fmt.Sprintf(inJSON, "b"), []string{"a", "b"}},
		{"flow-style", fmt.Sprintf(full, "a"), []string{"a"}},
		{"alias", "apiVersion: v1\nkind: Pod\nmetadata: {name: &n web}\nspec: {containers: [{name: *n, command: [sleep]}]}", []string{"web"}},
		{"merge", "apiVersion: v1\nkind: PodList\nitems:\n- &a\n  metadata: {name: a}\n  spec: {containers: [{name: c, command: [sleep]}]}\n" +
			"- <<: *a\n  metadata: {name: b}", []string{"a", "b"}},
		{"yaml-1.1-booleans", simple("  hostNetwork: yes"), []string{"web"}},
		{"octal", simple("  terminationGracePeriodSeconds: 017"), []string{"web"}},
		{"nulls", simple("  volumes: null", "  hostname: ~"), []string{"web"}},
		{"status-of-a-server", simple("status: {phase: Running}"), []string{"web"}},
		{"this-node", simple("  nodeName: Node1"), []string{"web"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pods, err := Parse(source(), []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range pods {
				got = append(got, strings.TrimSuffix(p.Name, "-node1"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "pod.yaml: there is no pod in it"},
		{"only-comments", "# pods\n---\n", "pod.yaml: there is no pod in it"},
		{"too-long", strings.Repeat("#", 5<<20), "pod.yaml: is longer than 1048576 bytes"},
		{"binary", "apiVersion: v1\nkind: \xff", "pod.yaml:2: is not UTF-8"},
		{"text", "hello", "pod.yaml:1: want a Pod, PodList or List, got the text \"hello\""},
		{"other-kind", "apiVersion: v1\nkind: Service", "pod.yaml:2: kind: want Pod, PodList or List, got \"Service\""},
		{"other-version", "apiVersion: apps/v1\nkind: Deployment", "pod.yaml:1: apiVersion: want v1, got \"apps/v1\""},
		{"no-kind", "metadata: {name: web}", "pod.yaml:1: apiVersion: want v1, got \"\""},
		{"item-of-other-kind", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service}",
			"pod.yaml:4: items[0]: want a v1 Pod, got apiVersion \"v1\" and kind \"Service\""},
		{"item-without-kind", "apiVersion: v1\nkind: List\nitems:\n- {}", "pod.yaml:4: items[0]: want a v1 Pod, got apiVersion \"\" and kind \"\""},
		{"item-no-mapping", "apiVersion: v1\nkind: List\nitems: [1]", "pod.yaml:3: items[0]: want a Pod, got the number 1"},
		{"page-of-a-list", "apiVersion: v1\nkind: PodList\nmetadata: {continue: abc}\nitems: []",
			"pod.yaml:3: metadata.continue: this is only the first page of a list"},
		{"list-with-unknown-field", "apiVersion: v1\nkind: PodList\nitms: []", "pod.yaml:3: itms: unknown field, did you mean items?"},
		{"unknown-field", simple("    comand: [x]"), "pod.yaml:9: pod web: spec.containers[0].comand: unknown field, did you mean command?"},
		{"field-in-other-case", simple("  HostNetwork: true"), "pod.yaml:9: pod web: spec.HostNetwork: unknown field, did you mean hostNetwork?"},
		{"field-twice", simple("  hostNetwork: true", "  hostNetwork: false"), "pod.yaml:10: pod web: spec.hostNetwork: stands twice, first at line 9"},
		{"json-field-twice", `{"apiVersion":"v1","kind":"Pod",` + "\n" + `"kind":"Pod"}`, "pod.yaml:2: kind: stands twice, first at line 1"},
		{"number-for-text", simple("    env: [{name: A, value: 8080}]"),
			"pod.yaml:9: pod web: spec.containers[0].env[0].value: want a string, got the number 8080: put it in quotes"},
		{"boolean-for-text", simple("    env: [{name: A, value: on}]"),
			"pod.yaml:9: pod web: spec.containers[0].env[0].value: want a string, got the boolean on: put it in quotes"},
		{"text-for-number", simple("    ports: [{containerPort: http}]"),
			"pod.yaml:9: pod web: spec.containers[0].ports[0].containerPort: want a whole number, got the text \"http\""},
		{"text-for-boolean", simple("  hostNetwork: maybe"), "pod.yaml:9: pod web: spec.hostNetwork: want true or false, got the text \"maybe\""},
		{"number-out-of-range", simple("    ports: [{containerPort: 99999999999}]"),
			"pod.yaml:9: pod web: spec.containers[0].ports[0].containerPort: 99999999999 is out of range"},
		{"list-for-mapping", simple("  volumes: {a: b}"), "pod.yaml:9: pod web: spec.volumes: want a list, got a mapping"},
		{"mapping-for-text", simple("  hostname: {a: b}"), "pod.yaml:9: pod web: spec.hostname: want a single value, got a mapping"},
		{"quantity", simple("    resources: {limits: {memory: 64 MB}}"),
			"pod.yaml:9: pod web: spec.containers[0].resources.limits[memory]: the text \"64 MB\": quantities must match the regular expression " +
				"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
		{"custom-tag", simple("  hostname: !secret x"), "pod.yaml:9: pod web: spec.hostname: tag !secret is not supported"},
		{"tab", simple("  hostNetwork: true\n\thostPID: true"),
			"pod.yaml:10: read YAML: found a tab character that violates indentation (this line is indented by a tab, and YAML wants spaces)"},
		{"anchor-that-contains-itself", simple("  volumes: &v [*v]"), "pod.yaml:9: pod web: spec.volumes[0]: anchor v contains itself"},
		{"merge-that-contains-itself", simple("  securityContext: &s {<<: *s}"), "pod.yaml:9: pod web: spec.securityContext: a merge contains itself"},
		{"merge-of-a-text", simple("  securityContext: {<<: x}"), "pod.yaml:9: pod web: spec.securityContext: merge wants a mapping, got the text \"x\""},
		{"unknown-anchor", simple("  hostname: *x"), "pod.yaml: read YAML: yaml: unknown anchor 'x' referenced"},
		{"json-syntax", "{\"apiVersion\": \"v1\",\n\"kind\" \"Pod\"}", "pod.yaml:2: read JSON: invalid character '\"' after object key"},
		{"json-cut-off", "{\"apiVersion\": \"v1\",\n\"kind\":", "pod.yaml:2: read JSON: unexpected EOF"},
		{"json-with-a-tail", `{"apiVersion":"v1","kind":"PodList","items":[]} x`, "pod.yaml:1: read JSON: invalid character 'x' looking for beginning of value"},
		{"json-too-deep", `{"a":` + strings.Repeat("[", 100_000), "pod.yaml:1: read JSON: nested deeper than 100"},
		{"yaml-cut-off", "apiVersion: v1\nkind: Pod\nmetadata: {name: web", "pod.yaml:2: read YAML: did not find expected ',' or '}'"},
		{"name-twice", simple() + "---\n" + simple("  hostNetwork: true"), "pod.yaml:13: pod web: metadata.name: the pod at line 1 has it too: default/web-node1"},
		{"uid-twice", strings.ReplaceAll(simple()+"---\n"+strings.Replace(simple(), "name: web", "name: other", 1), "metadata:", "metadata:\n  uid: u1"),
			"pod.yaml:14: pod other: metadata.uid: the pod at line 1 has it too: u1"},
		{"other-node", simple("  nodeName: node2"), "pod.yaml:9: pod web: spec.nodeName: is \"node2\", and this node is \"Node1\""},
		{"name-too-long", strings.Replace(simple(), "web", strings.Repeat("a", 250), 1), "pod.yaml:4: pod " + strings.Repeat("a", 250) + ": metadata.name: \"" +
			strings.Repeat("a", 80) + "…\": must be no more than 253 characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pods, err := Parse(source(), []byte(tt.text))
			if err == nil || len(pods) > 0 {
				t.Fatalf("%d pods, error %v", len(pods), err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBillionLaughs is about aliases and merges that multiply.
func TestBillionLaughs(t *testing.T) {
	var merges strings.Builder
	merges.WriteString(strings.TrimSuffix(simple(), "\n") + "\n    resources: {limits: &m0 {cpu: 1}}\n")
	for i := range 12 {
		list := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*m%d, ", i), 10), ", ")
		fmt.Fprintf(&merges, "  - {name: c%d, command: [x], resources: {limits: &m%d {<<: [%s]}}}\n", i, i+1, list)
	}
	if _, err := Parse(source(), []byte(merges.String())); err == nil || !strings.Contains(err.Error(), "aliases repeat more than 10000 values") {
		t.Errorf("merges: error %v", err)
	}
	pods := "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {containers: [{name: c, command: &c [x"
	pods += strings.Repeat(", x", 1000) + "]}"
	pods += strings.Repeat(", {name: d, command: *c}", 100) + "]}\n"
	_, err := Parse(source(), []byte(pods))
	fault, ok := errors.AsType[*Fault](err)
	if want := "aliases repeat more than 10000 values"; !ok || fault.Reason != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestFaultsAreTenAtMost(t *testing.T) {
	_, err := Parse(source(), []byte(simple("    env: ["+strings.Repeat("{nam: A}, ", 12)+"]")))
	if err == nil {
		t.Fatal("no error")
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 11 || lines[10] != "and 2 more" {
		t.Errorf("%d lines: %v", len(lines), err)
	}
}

func TestUID(t *testing.T) {
	one := func(t *testing.T, src Source, text string) *v1.Pod {
		t.Helper()
		pods, err := Parse(src, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return pods[0]
	}
	base := one(t, source(), simple()).UID
	if len(base) != 32 {
		t.Errorf("UID %q, want 32 hex digits", base)
	}
	other := source()
	other.Name = "other.yaml"
	node := source()
	node.Node = "node2"
	tests := []struct {
		name string
		src  Source
		text string
		same bool
	}{
		{"same", source(), "# comment\n" + simple(), true},
		{"what-a-server-writes", source(), simple("status: {phase: Running}"), true},
		{"edited", source(), simple("    args: [\"1\"]"), false},
		{"other-file", other, simple(), false},
		{"other-node", node, simple(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if same := one(t, tt.src, tt.text).UID == base; same != tt.same {
				t.Errorf("same UID: %v, want %v", same, tt.same)
			}
		})
	}
}

// TestExamples keeps the examples valid.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/pods/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("examples: %v %v", files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			src := source()
			src.Name = f
			if _, err := Parse(src, raw); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, s := range []string{simple(), "{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[{\"metadata\":{}}]}", "a: &a [*a]", "&a {<<: *a}", "\t- x",
		simple("  volumes: [{name: v, hostPath: {path: /a/../b}}]"), "--- !!set {a, b}\n", "? [a]\n: b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := Parse(source(), data)
		if err != nil {
			if len(pods) > 0 {
				t.Errorf("pods beside an error: %v", err)
			}
			return
		}
		again, err := Parse(source(), data)
		if diff := cmp.Diff(pods, again); err != nil || diff != "" {
			t.Errorf("read a second time: %v\n%s", err, diff)
		}
		for _, p := range pods {
			if err := Validate(p); err != nil {
				t.Errorf("a pod that was returned: %v", err)
			}
			if strings.ContainsAny(string(p.UID)+p.Name+p.Namespace, "/\x00") || p.UID == "" {
				t.Errorf("pod %q %q %q", p.Namespace, p.Name, p.UID)
			}
		}
	})
}
