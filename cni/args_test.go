package cni_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestParseArgs(t *testing.T) {
	tests := map[string]struct {
		in   string
		want cni.Args
		text string
	}{
		"empty":      {"", nil, ""},
		"one":        {"IP=10.1.0.5", cni.Args{{"IP", "10.1.0.5"}}, "IP=10.1.0.5"},
		"kubernetes": {"IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b", cni.Args{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "a"}, {"K8S_POD_NAME", "b"}}, "IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b"},
		"equals":     {"A=b=c==", cni.Args{{"A", "b=c=="}}, "A=b=c=="},
		"no-value":   {"A=", cni.Args{{"A", ""}}, "A="},
		"semicolons": {";A=1;;B=2;", cni.Args{{"A", "1"}, {"B", "2"}}, "A=1;B=2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cni.ParseArgs(tt.in)
			check(t, err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
			if got.String() != tt.text {
				t.Errorf("text %q, want %q", got, tt.text)
			}
		})
	}
	for _, in := range []string{"A", "=b", "A=1;b", " "} {
		if _, err := cni.ParseArgs(in); cni.CodeOf(err) != cni.CodeInvalidEnvironment {
			t.Errorf("ParseArgs(%q): %v, want an error with code 4", in, err)
		}
	}
}

func TestArgsGet(t *testing.T) {
	args := cni.Args{{"A", "1"}, {"B", ""}, {"A", "2"}}
	for key, want := range map[string]string{"A": "2", "B": ""} {
		if got, ok := args.Get(key); !ok || got != want {
			t.Errorf("%s = %q, %v, want %q", key, got, ok, want)
		}
	}
	if _, ok := args.Get("a"); ok {
		t.Error("a key was found in another case")
	}
}

func TestArgsOnly(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"known":        {"IP=1", ""},
		"unknown":      {"FOO=1;IP=2;BAR=3", "CNI_ARGS: unknown keys: FOO, BAR"},
		"ignored":      {"FOO=1;IgnoreUnknown=1", ""},
		"ignored-true": {"FOO=1;IgnoreUnknown=True", ""},
		"not-ignored":  {"FOO=1;IgnoreUnknown=0", "CNI_ARGS: unknown keys: FOO"},
		"last-counts":  {"FOO=1;IgnoreUnknown=1;IgnoreUnknown=false", "CNI_ARGS: unknown keys: FOO"},
		"odd-value":    {"FOO=1;IgnoreUnknown=maybe", `CNI_ARGS: IgnoreUnknown="maybe": want 1, true, 0 or false`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args, err := cni.ParseArgs(tt.in)
			check(t, err)
			err = args.Only("IP")
			if tt.want == "" {
				check(t, err)
				return
			}
			wantError(t, err, cni.CodeInvalidEnvironment, tt.want)
		})
	}
}

// TestSecretsInArgs: neither what is shown of arguments nor an error about them has the value of one that nobody knows.
func TestSecretsInArgs(t *testing.T) {
	args, err := cni.ParseArgs("IgnoreUnknown=1;K8S_POD_NAME=web;TOKEN=s3cret;IP=10.0.0.5")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := args.Hidden().String(), "IgnoreUnknown=1;K8S_POD_NAME=web;TOKEN=…;IP=10.0.0.5"; got != want {
		t.Errorf("Hidden() = %q, want %q", got, want)
	}
	if value, _ := args.Get("TOKEN"); value != "s3cret" {
		t.Errorf("the value itself became %q", value)
	}
	for _, text := range []string{"TOKEN=a;s3cret", "s3cret", "=s3cret"} {
		if _, err := cni.ParseArgs(text); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("ParseArgs(%q): %v", text, err)
		}
	}
}
