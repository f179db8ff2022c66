package pluginexec

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cleat-cni/cleat/cni"
)

// FuzzAnswer: whatever a plugin prints, ADD gives one JSON object or a bounded error that names the plugin.
func FuzzAnswer(f *testing.F) {
	for _, out := range []string{
		"", "null", "{}", `{"cniVersion":"1.1.0"}`, `{"code":11,"msg":"x"}`, "log\n{\"code\":11,\"msg\":\"x\"}\n", `{}{"msg":"x","code":1}`,
		"{\n{\n{", "\x00", "\ufeff{}", `{"code":-1,"msg":"x"}`, `{"code":"x","msg":1}`, `{"msg":null}`,
	} {
		f.Add([]byte(out), []byte("stderr"))
	}
	f.Fuzz(func(t *testing.T, out, stderr []byte) {
		p := Command{Path: "/p/fake", Type: "fake", Verb: cni.VerbAdd}.prepare()
		if _, err := p.stdout.Write(out); err != nil {
			t.Skip("longer than a plugin may print")
		}
		if _, err := p.stderr.Write(stderr); err != nil {
			t.Fatal(err)
		}
		got, err := p.answer()
		if err == nil {
			if _, err := cni.ParseObject(got); err != nil {
				t.Errorf("answer is no object: %v", err)
			}
		}
		for _, err := range []error{err, p.failure("exit status 1")} {
			if err == nil {
				continue
			}
			e, ok := err.(*cni.Error)
			if !ok || e.Plugin != "fake" || e.Verb != cni.VerbAdd || e.Code == 0 {
				t.Errorf("error %#v", err)
			}
			if own, _ := errorObject(out); own == nil && (len(err.Error()) > 8<<10 || !utf8.ValidString(err.Error()) || strings.Contains(err.Error(), "\x00") && !strings.Contains(string(stderr), "\x00")) {
				t.Errorf("error of %d bytes: %q", len(err.Error()), err)
			}
		}
	})
}
