package main

import "testing"

func TestChosen(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"link", []string{"/opt/cni/bin/bridge"}, "bridge"},
		{"argument", []string{"cleat-cni", "bridge"}, "bridge"},
		{"own-name", []string{"/opt/cni/bin/cleat-cni"}, ""},
		{"own-name-with-version", []string{"cleat-cni-1.2.3", "bridge"}, "bridge"},
		{"no-arguments-at-all", nil, ""},
		{"empty-name", []string{""}, "."},
		{"path-that-climbs", []string{"../../sbin/x"}, "x"},
		{"line-break", []string{"bri\ndge"}, "bri\ndge"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := chosen(tc.args); got != tc.want {
				t.Errorf("chosen(%q) = %q, want %q", tc.args, got, tc.want)
			}
		})
	}
}
