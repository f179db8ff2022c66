package cni_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestCompareOrder(t *testing.T) {
	ordered := []string{
		"0.0.1", "0.1.0", "0.3.0", "0.3.1", "0.10.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta",
		"1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.1.0-rc1", "1.1.0", "2.0.0", "18446744073709551616.0.0", "99999999999999999999.0.0",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			got, err := cni.Compare(a, b)
			check(t, err)
			if want := min(max(i-j, -1), 1); got != want {
				t.Errorf("Compare(%s, %s) = %d, want %d", a, b, got, want)
			}
			if cni.AtLeast(a, b) != (i >= j) {
				t.Errorf("AtLeast(%s, %s) = %v", a, b, i < j)
			}
		}
	}
}

func TestCompareEqual(t *testing.T) {
	for _, pair := range [][2]string{{"", "0.1.0"}, {"1", "1.0.0"}, {"1.0", "1.0.0"}, {"1.0.0+a", "1.0.0+b.2"}, {"1.0-rc1", "1.0.0-rc1"}} {
		if got, err := cni.Compare(pair[0], pair[1]); got != 0 || err != nil {
			t.Errorf("Compare(%q, %q) = %d, %v, want 0", pair[0], pair[1], got, err)
		}
	}
}

func TestCompareFaults(t *testing.T) {
	for _, v := range []string{"a", "1.", ".1", "1.0.0.0", "v1.0.0", "1.0.0-", "1.0.0-a..b", "1.0.0-01", "1.0.0+", "1.0.0-ü", "-1.0.0", "+1", "01.0.0", " 1.0.0", "1.0.x"} {
		_, err := cni.Compare(v, "1.0.0")
		if cni.CodeOf(err) != cni.CodeInvalidConfig {
			t.Errorf("Compare(%q): %v, want an error with code 7", v, err)
		}
		if _, other := cni.Compare("1.0.0", v); other == nil {
			t.Errorf("Compare(1.0.0, %q): no error", v)
		}
		if cni.AtLeast(v, "0.1.0") || cni.AtLeast("1.0.0", v) || cni.Supported(v) {
			t.Errorf("%q counts as a version", v)
		}
	}
}

func TestVersions(t *testing.T) {
	all := cni.Versions()
	if diff := cmp.Diff([]string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}, all); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	for _, v := range append(all, "", "1.0") {
		if !cni.Supported(v) {
			t.Errorf("%q is not supported", v)
		}
	}
	for _, v := range []string{"0.3.2", "1.1.0-rc1", "1.2.0", "2.0.0"} {
		if cni.Supported(v) {
			t.Errorf("%q is supported", v)
		}
	}
	all[0] = "x"
	if slices.Contains(cni.Versions(), "x") {
		t.Error("a caller changed the list")
	}
}

func TestNegotiate(t *testing.T) {
	tests := map[string]struct {
		version  string
		versions []string
		want     string
	}{
		"neither":        {"", nil, "0.1.0"},
		"one":            {"0.4.0", nil, "0.4.0"},
		"list":           {"", []string{"0.3.1", "1.0.0", "0.4.0"}, "1.0.0"},
		"both":           {"1.0.0", []string{"0.4.0"}, "1.0.0"},
		"too-new":        {"1.0.0", []string{"1.3.0", "2.0.0", "0.4.0"}, "1.0.0"},
		"too-new-single": {"2.0.0", []string{"0.4.0"}, "0.4.0"},
		"short":          {"1.0", nil, "1.0.0"},
		"numbers":        {"0.10.0", []string{"0.3.0", "0.2.0"}, "0.3.0"},
		"prerelease":     {"1.1.0-rc1", []string{"1.0.0"}, "1.0.0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cni.Negotiate(tt.version, tt.versions)
			check(t, err)
			if got != tt.want {
				t.Errorf("version %s, want %s", got, tt.want)
			}
		})
	}
}

func TestNegotiateFaults(t *testing.T) {
	_, err := cni.Negotiate("2.0.0", []string{"1.2.0"})
	wantError(t, err, cni.CodeIncompatibleVersion, "specification version 1.2.0, 2.0.0: not spoken here; spoken are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0")
	_, err = cni.Negotiate("1.0.0", []string{"1.x"})
	wantError(t, err, cni.CodeInvalidConfig, `version "1.x": want the form 1.1.0`)
}

func TestVerbSince(t *testing.T) {
	want := map[cni.Verb]string{"ADD": "0.1.0", "DEL": "0.1.0", "VERSION": "0.2.0", "CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0", "add": ""}
	for verb, version := range want {
		if got := verb.Since(); got != version {
			t.Errorf("%s since %q, want %q", verb, got, version)
		}
	}
}

func TestParseVersionInfo(t *testing.T) {
	tests := map[string]struct {
		in   string
		want cni.VersionInfo
	}{
		"list":  {`{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"],"x":1}`, cni.VersionInfo{CNIVersion: "1.0.0", Supported: []string{"0.4.0", "1.0.0"}}},
		"0.2.0": {`{"cniVersion":"0.2.0"}`, cni.VersionInfo{CNIVersion: "0.2.0", Supported: []string{"0.1.0", "0.2.0"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cni.ParseVersionInfo([]byte(tt.in))
			check(t, err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseVersionInfoFaults(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"empty":      {``, "line 1, column 1: the text is empty"},
		"no-version": {`{"supportedVersions":["1.0.0"]}`, "line 1, column 1: cniVersion: is missing"},
		"no-list":    {`{"cniVersion":"1.0.0"}`, "line 1, column 1: supportedVersions: is missing or empty"},
		"empty-list": {`{"cniVersion":"1.0.0","supportedVersions":[]}`, "line 1, column 43: supportedVersions: is missing or empty"},
		"null-item":  {`{"cniVersion":"1.0.0","supportedVersions":[null]}`, "line 1, column 44: supportedVersions[0]: null is not allowed in a list: remove it"},
		"type":       {`{"cniVersion":[]}`, "line 1, column 15: cniVersion: want a string, found a list"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := cni.ParseVersionInfo([]byte(tt.in))
			wantError(t, err, cni.CodeDecode, "decode version answer: "+tt.want)
		})
	}
}
