package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Iptables returns a folder with the programs of iptables of one kind, legacy or nft, under their
// plain names, for a $PATH; t is skipped if they are not installed.
func Iptables(t testing.TB, kind string) string {
	t.Helper()
	program, err := exec.LookPath("xtables-" + kind + "-multi")
	if err != nil {
		Need(t, "iptables-"+kind, err.Error())
	}
	dir := t.TempDir()
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
