package cni_test

import (
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 255)
	good := []string{"a", "x", "0", "A.b_c-d", "eth0", long}
	bad := []string{"", ".a", "-a", "_a", "..", "../../x", "a/b", `a\b`, "a b", "a\x00", "ä", "a\n", long + "a", strings.Repeat("a", 300)}
	for _, name := range good {
		if err := cni.CheckNetworkName(name); err != nil {
			t.Error(err)
		}
		if err := cni.CheckContainerID(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range bad {
		if err := cni.CheckNetworkName(name); cni.CodeOf(err) != cni.CodeInvalidConfig {
			t.Errorf("network name %q: %v, want an error with code 7", name, err)
		}
		want := cni.CodeInvalidEnvironment
		if name == "" {
			want = cni.CodeUnknownContainer
		}
		err := cni.CheckContainerID(name)
		if cni.CodeOf(err) != want {
			t.Errorf("container ID %q: %v, want an error with code %d", name, err, want)
		}
		if len(err.Error()) > 150 || strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("message %q", err)
		}
	}
}

func TestCheckIfName(t *testing.T) {
	for _, name := range []string{"a", "eth0", "net.100", "fifteen-bytes-x", "ä"} {
		if err := cni.CheckIfName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "..", "all", "default", "a/b", "a:1", "a b", "a\u00a0b", "a\n", "a\x01", "eth%d", "\xff", "sixteen-bytes-xx"} {
		if err := cni.CheckIfName(name); cni.CodeOf(err) != cni.CodeInvalidEnvironment {
			t.Errorf("interface name %q: %v, want an error with code 4", name, err)
		}
	}
}

func TestCheckType(t *testing.T) {
	for _, typ := range []string{"bridge", "host-local", "bridge.exe", "..a", "a b"} {
		if err := cni.CheckType(typ); err != nil {
			t.Error(err)
		}
	}
	for _, typ := range []string{"", ".", "..", "/bin/sh", "../a", `a\b`, `C:\a`, "a\x00b", "a\n", strings.Repeat("a", 256)} {
		if err := cni.CheckType(typ); cni.CodeOf(err) != cni.CodeInvalidConfig {
			t.Errorf("type %q: %v, want an error with code 7", typ, err)
		}
	}
}
