package planned

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestReadResolvConf(t *testing.T) {
	const text = `# nameserver 10.0.0.1
; search of.a.comment
nameserver 10.0.0.2
nameserver	fd00::2 # behind the address nothing is read
domain old.example
domain example.org
search example.org
search a.example b.example
options ndots:5 edns0
nameserver
sortlist 10.0.0.0
`
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readResolvConf(path)
	if err != nil {
		t.Fatal(err)
	}
	want := cni.DNS{
		Nameservers: []string{"10.0.0.2", "fd00::2"}, Domain: "example.org",
		Search: []string{"example.org", "a.example", "b.example"}, Options: []string{"ndots:5", "edns0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadResolvConfErrors(t *testing.T) {
	long := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(long, []byte("search "+strings.Repeat("a", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	endless := filepath.Join(t.TempDir(), "endless")
	if err := os.WriteFile(endless, []byte(strings.Repeat("search a\n", 1<<18)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{long, endless, filepath.Join(t.TempDir(), "none")} {
		if dns, err := readResolvConf(path); cni.CodeOf(err) != cni.CodeIO || !strings.Contains(err.Error(), path) || !dns.IsZero() {
			t.Errorf("%s: got %v, error %v, want code %d", path, dns, err, cni.CodeIO)
		}
	}
}

// TestReadResolvConfOfFIFO: the ADD doesn't wait for a writer that may never come.
func TestReadResolvConfOfFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readResolvConf(path); err == nil || !strings.Contains(err.Error(), path+": a FIFO") {
		t.Errorf("error %v", err)
	}
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add("nameserver 10.0.0.1\nsearch a b\noptions ndots:5\ndomain a\n")
	f.Add("# comment\n\nnameserver\n\tsearch\t\x00\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		dns, err := parseResolvConf(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, v := range slices.Concat(dns.Nameservers, dns.Search, dns.Options) {
			if len(strings.Fields(v)) != 1 || !strings.Contains(text, v) {
				t.Errorf("%q is no word of the text", v)
			}
		}
	})
}
