package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummary(t *testing.T) {
	const in = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:9: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0.5}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: missing: nft: not installed\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p","Elapsed":1}
# q
{"Action":"build-fail","Package":"q"}
{"Action":"pass","Package":"r","Elapsed":2}
`
	s := &summary{output: map[string][]string{}, failures: map[string]bool{}}
	var out strings.Builder
	if err := s.read(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	s.print(&out)
	const want = `FAIL  p TestA (0.5s)
    a_test.go:9: wrong
FAIL  p  (1.0s)
# q
FAIL  q  (0.0s)
ok    r (2.0s)
skip  p TestC: c_test.go:3: missing: nft: not installed
1 passed, 2 failed, 1 skipped
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
