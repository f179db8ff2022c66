package cli

import (
	"strings"
	"testing"
)

// TestCnitool: what cnitool does otherwise than the reference. What it does alike is tested against it, in test/peers.
func TestCnitool(t *testing.T) {
	files := map[string]string{"10-mynet.conflist": pairNet}
	for _, tc := range []struct {
		name   string
		env    [2]string
		args   string
		status int
		stderr string // all of it; NS stands for a namespace that is there
	}{
		{"missing", [2]string{}, "add mynet", 1, "cnitool: NETNS is missing\nhint: usage: cnitool add NETWORK NETNS [flags]\n"},
		{"extra", [2]string{}, "gc mynet NS more", 1, "cnitool: unexpected argument \"more\"\nhint: usage: cnitool gc NETWORK [NETNS] [flags]\n"},
		{"gc-without-netns", [2]string{}, "gc mynet", 0, ""},
		{"status-without-netns", [2]string{}, "status mynet", 0, ""},
		{"code-shown-once", [2]string{}, "add mynet /none", 1,
			"cnitool: add cnitool-6b800f5784cae112f611/eth0 in network mynet: pair: open: CNI_NETNS: open namespace /none: does not exist (code 8)\n" +
				"hint: the runtime makes the namespace before ADD; ip netns list shows the named ones\n"},
		{"args-without-value", [2]string{"CNI_ARGS", "A="}, "add mynet NS", 1, "cnitool: invalid CNI_ARGS pair \"A=\"\n"},
		{"args-with-equals-signs", [2]string{"CNI_ARGS", "A=b=c"}, "add mynet NS", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t, files)
			s.tool = true
			s.env[tc.env[0]] = tc.env[1]
			ns := s.kernel.NewPod()
			status, _, stderr := s.run(t.Context(), strings.Fields(strings.ReplaceAll(tc.args, "NS", ns))...)
			if status != tc.status || stderr != tc.stderr {
				t.Errorf("status %d, want %d; stderr\n%swant\n%s", status, tc.status, stderr, tc.stderr)
			}
		})
	}
}

func TestCnitoolResult(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	s.tool = true
	ns := s.kernel.NewPod()
	want := `{
    "cniVersion": "1.1.0",
    "interfaces": [
        {
            "mac": "0a:00:00:00:00:01",
            "name": "eth0",
            "sandbox": "` + ns + `"
        }
    ]
}`
	if status, out, errs := s.run(t.Context(), "add", "mynet", ns); status != 0 || out != want || errs != "" {
		t.Errorf("status %d\n%s%s\nwant\n%s", status, out, errs, want)
	}
}
