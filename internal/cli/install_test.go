package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/cleat-cni/cleat/libcni"
)

// TestDefaultConflist: the default network is valid, for any name, and offers what its page says.
func TestDefaultConflist(t *testing.T) {
	for _, name := range []string{"cleat", "a.b-c_d"} {
		list, err := libcni.ConfListFromBytes(defaultConflist(name))
		if err != nil {
			t.Fatal(err)
		}
		if list.Name != name || list.CNIVersion != "1.1.0" || len(list.Plugins) != 2 || !declares(list, "portMappings") {
			t.Errorf("network %+v", list)
		}
	}
}

// TestInstallRefuses what is no cleat-cni, before anything is written.
func TestInstallRefuses(t *testing.T) {
	s := newStage(t, nil)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(s.dir, "bin")
	for _, tc := range []struct {
		name   string
		args   []string
		status int
	}{
		{"other-program", []string{"--from", other}, 1},
		{"nothing", []string{"--from", other + "x"}, 1},
		{"unknown-place", nil, 2},
		{"bad-name", []string{"--from", other, "--conflist", "../x"}, 2},
		{"argument", []string{"x"}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, out, errs := s.run(t.Context(), append([]string{"install", "--bin-dir", bin}, tc.args...)...)
			if status != tc.status || out != "" || errs == "" {
				t.Errorf("status %d, want %d\n%s%s", status, tc.status, out, errs)
			}
			if _, err := os.Stat(bin); err == nil {
				t.Error("the folder was made")
			}
		})
	}
	if status, out, errs := s.run(t.Context(), "install", "--uninstall", "--bin-dir", bin, "-o", "json"); status != 0 || !json.Valid([]byte(out)) || out != "[]\n" {
		t.Errorf("uninstall of nothing: status %d\n%s%s", status, out, errs)
	}
}
