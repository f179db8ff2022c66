package cli

import (
	"math"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestParsePublish(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     cni.PortMapping
		err      string // a part of it
	}{
		{name: "plain", in: "8080:80", want: cni.PortMapping{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}},
		{name: "udp", in: "53:5353/UDP", want: cni.PortMapping{HostPort: 53, ContainerPort: 5353, Protocol: "udp"}},
		{name: "sctp", in: "1:65535/sctp", want: cni.PortMapping{HostPort: 1, ContainerPort: 65535, Protocol: "sctp"}},
		{name: "host-ip", in: "127.0.0.1:8080:80", want: cni.PortMapping{HostPort: 8080, ContainerPort: 80, Protocol: "tcp", HostIP: "127.0.0.1"}},
		{name: "host-ipv6", in: "[0:0::1]:8080:80/tcp", want: cni.PortMapping{HostPort: 8080, ContainerPort: 80, Protocol: "tcp", HostIP: "::1"}},
		{name: "empty", in: "", err: "container's port is missing"},
		{name: "one-port", in: "80", err: "container's port is missing"},
		{name: "zero", in: "0:80", err: `host port "0"`},
		{name: "too-large", in: "80:65536", err: `container port "65536"`},
		{name: "signed", in: "+80:80", err: `host port "+80"`},
		{name: "no-host", in: ":80", err: `host port ""`},
		{name: "icmp", in: "1:1/icmp", err: "not tcp, udp or sctp"},
		{name: "no-proto", in: "1:1/", err: "not tcp, udp or sctp"},
		{name: "ipv6-bare", in: "::1:8080:80", err: "in brackets"},
		{name: "ipv4-in-brackets", in: "[127.0.0.1]:1:1", err: "not an IPv6 address"},
		{name: "zone", in: "[fe80::1%eth0]:1:1", err: "not an IPv6 address"},
		{name: "bracket-open", in: "[::1:1:1", err: "[address]:host:container"},
		{name: "name-for-address", in: "localhost:1:1", err: "not an IPv4 address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parsePublish(tc.in)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("parsePublish(%q) = %v, want an error with %q", tc.in, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// writePublish is the inverse of parsePublish.
func writePublish(m cni.PortMapping) string {
	ports := strconv.Itoa(m.HostPort) + ":" + strconv.Itoa(m.ContainerPort) + "/" + m.Protocol
	switch {
	case m.HostIP == "":
		return ports
	case strings.Contains(m.HostIP, ":"):
		return "[" + m.HostIP + "]:" + ports
	default:
		return m.HostIP + ":" + ports
	}
}

func FuzzParsePublish(f *testing.F) {
	for _, s := range []string{"8080:80", "127.0.0.1:8080:80/udp", "[::1]:1:1/sctp", "[::ffff:1.2.3.4]:1:2", ":", "[", "a:b:c:d", "1:1/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parsePublish(s)
		if err != nil {
			return
		}
		if m.HostPort < 1 || m.HostPort > 65535 || m.ContainerPort < 1 || m.ContainerPort > 65535 {
			t.Fatalf("%q: ports out of range: %+v", s, m)
		}
		if m.HostIP != "" && net.ParseIP(m.HostIP) == nil {
			t.Fatalf("%q: host address %q", s, m.HostIP)
		}
		again, err := parsePublish(writePublish(m))
		if err != nil || again != m {
			t.Fatalf("%q: %+v written and read is %+v, %v", s, m, again, err)
		}
	})
}

func TestParseRate(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     uint64 // 0 is an error
	}{
		{"plain", "1500", 1500},
		{"kilo", "500k", 500_000},
		{"mega", "10M", 10_000_000},
		{"mega-bit", "10mbit", 10_000_000},
		{"giga", "2G", 2_000_000_000},
		{"mebi", "4Mi", 4 << 20},
		{"gibi-bit", "1GiBit", 1 << 30},
		{"bit", "8bit", 8},
		{"largest", "18446744073709551615", math.MaxUint64},
		{"zero", "0", 0},
		{"empty", "", 0},
		{"unit-only", "M", 0},
		{"negative", "-1M", 0},
		{"fraction", "1.5M", 0},
		{"overflow", "18446744073709551615k", 0},
		{"unknown-unit", "10X", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseRate(tc.in)
			if got != tc.want || (err == nil) != (tc.want != 0) {
				t.Errorf("parseRate(%q) = %d, %v, want %d", tc.in, got, err, tc.want)
			}
		})
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"10M", "4Kibit", "bit", "18446744073709551615T", "٣M"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseRate(s)
		if (err == nil) != (n > 0) {
			t.Fatalf("parseRate(%q) = %d, %v", s, n, err)
		}
		if err != nil {
			return
		}
		if again, err := parseRate(strconv.FormatUint(n, 10)); err != nil || again != n {
			t.Fatalf("%q is %d, which is read as %d, %v", s, n, again, err)
		}
	})
}

func TestBurstOf(t *testing.T) {
	for rate, want := range map[uint64]uint64{1: 524288, 10_000_000: 1_000_000, math.MaxUint64: math.MaxUint32} {
		if got := burstOf(rate); got != want {
			t.Errorf("burstOf(%d) = %d, want %d", rate, got, want)
		}
	}
}

func TestParsePair(t *testing.T) {
	for _, tc := range []struct{ name, in, key, value string }{
		{"plain", "K=V", "K", "V"},
		{"equals-in-value", "K=a=b", "K", "a=b"},
		{"no-value", "K=", "", ""},
		{"no-key", "=V", "", ""},
		{"no-equals", "K", "", ""},
		{"semicolon", "K=a;b", "", ""},
		{"newline", "K=a\nb", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, value, err := parsePair(tc.in)
			if key != tc.key || value != tc.value || (err == nil) != (tc.key != "") {
				t.Errorf("parsePair(%q) = %q, %q, %v", tc.in, key, value, err)
			}
		})
	}
}

func FuzzParsePair(f *testing.F) {
	for _, s := range []string{"K=V", "=", "a=b=c", "a;b=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, value, err := parsePair(s)
		if err != nil {
			return
		}
		back, err := cni.ParseArgs(cni.Args{{key, value}}.String())
		if err != nil || len(back) != 1 || back[0] != [2]string{key, value} {
			t.Fatalf("%q: CNI_ARGS carries %q, %v", s, back, err)
		}
	})
}

func TestSetArg(t *testing.T) {
	args := cni.Args{{"A", "1"}, {"B", "2"}, {"A", "3"}}
	got := setArg(args, "A", "4")
	if diff := cmp.Diff(cni.Args{{"B", "2"}, {"A", "4"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(cni.Args{{"A", "1"}, {"B", "2"}, {"A", "3"}}, args); diff != "" {
		t.Errorf("the argument was changed (-want +got):\n%s", diff)
	}
}
