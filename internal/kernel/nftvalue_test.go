package kernel

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

func TestValues(t *testing.T) {
	for _, tc := range []struct {
		name  string
		types string
		text  string
		size  int
		back  string // "" is text
	}{
		{"port-alone", "inet_service", "8080", 2, ""},
		{"protocol-alone", "inet_proto", "tcp", 1, ""},
		{"protocol-number", "inet_proto", "58", 1, "icmpv6"},
		{"protocol-without-a-name", "inet_proto", "200", 1, ""},
		{"padded", "inet_proto . inet_service", "udp . 53", 8, ""},
		{"target", "ipv4_addr . inet_service", "10.88.0.5 . 80", 8, ""},
		{"long", "ipv6_addr . inet_proto . inet_service", "fd00::1 . sctp . 65535", 24, ""},
		{"ipv6-spelled-out", "ipv6_addr", "fd00:0:0:0::1", 16, "fd00::1"},
		{"names", "ifname . ether_addr", "veth0 . 02:00:00:00:00:01", 24, ""},
		{"mark", "mark", "8192", 4, "0x2000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			types, err := typesOf(strings.Split(tc.types, " . "))
			if err != nil {
				t.Fatal(err)
			}
			value, err := types.encode(strings.Split(tc.text, " . "))
			if err != nil || len(value) != tc.size || types.size() != tc.size {
				t.Fatalf("value %x, size %d, want size %d; %v", value, types.size(), tc.size, err)
			}
			want := tc.back
			if want == "" {
				want = tc.text
			}
			if have := strings.Join(types.decode(value), " . "); have != want {
				t.Errorf("decoded %s, want %s", have, want)
			}
			again, ok := typesOfNumber(types.number())
			if !ok || !slices.Equal(again.names(), types.names()) {
				t.Errorf("types %v of number %#x, want %v", again.names(), types.number(), types.names())
			}
			if types.decode(value[:len(value)-1]) != nil {
				t.Error("a short value was decoded")
			}
		})
	}
}

func TestValuesRefuse(t *testing.T) {
	for _, tc := range []struct{ typ, text string }{
		{"ipv4_addr", "10.0.0"}, {"ipv4_addr", "::1"}, {"ipv6_addr", "10.0.0.1"}, {"ipv6_addr", "fe80::1%eth0"},
		{"ether_addr", "02:00:00:00:00"}, {"ether_addr", "02:00:00:00:00:00:00:01"},
		{"inet_proto", "256"}, {"inet_proto", "tpc"}, {"inet_service", "65536"}, {"inet_service", "-1"}, {"inet_service", "http"},
		{"mark", "0x100000000"}, {"ifname", ""}, {"ifname", "sixteen-bytes-xx"}, {"ifname", "a/b"}, {"ifname", "a b"},
	} {
		t.Run(tc.typ+"-"+tc.text, func(t *testing.T) {
			types, err := typesOf([]string{tc.typ})
			if err != nil {
				t.Fatal(err)
			}
			if v, err := types.encode([]string{tc.text}); err == nil {
				t.Errorf("value %x", v)
			}
		})
	}
	if _, err := typesOf([]string{"verdict"}); err == nil {
		t.Error("type verdict is known")
	}
	if _, ok := typesOfNumber(1); ok {
		t.Error("number of verdict is known")
	}
}

func TestElementUserdata(t *testing.T) {
	owner := netstate.Owner{Network: "net", ContainerID: "c", IfName: "eth0"}
	long := netstate.Owner{Network: strings.Repeat("n", 100), ContainerID: "c", IfName: "eth0"}
	for _, tc := range []struct {
		name        string
		owner       netstate.Owner
		lives       string
		wantComment string
		wantLives   string
	}{
		{"both", owner, "link veth0", owner.Comment(127), "link veth0"},
		{"no-proof", owner, "", owner.Comment(127), ""},
		{"long-names", long, "link veth0", long.Mark(), "link veth0"},
		{"path-leaves-the-mark", owner, strings.Repeat("p", 229), owner.Mark(), strings.Repeat("p", 229)},
		{"path-too-long", owner, strings.Repeat("p", 230), owner.Comment(127), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := elementUserdata(netstate.Element{Owner: tc.owner, Lives: tc.lives})
			if len(b) > maxUserdata {
				t.Errorf("%d bytes", len(b))
			}
			have := []string{parseUserdata(b, userdataComment), parseUserdata(b, userdataLives)}
			if diff := cmp.Diff([]string{tc.wantComment, tc.wantLives}, have); diff != "" {
				t.Errorf("comment and proof (-want +got):\n%s", diff)
			}
		})
	}
	if s := parseUserdata([]byte{userdataLives, 9, 'x'}, userdataLives); s != "" {
		t.Errorf("a cut record gives %q", s)
	}
}

func TestSetUserdata(t *testing.T) {
	for _, tc := range []struct {
		name      string
		key, data string
		want      []byte
	}{
		{"network-order", "ipv4_addr", "inet_service", nil},
		{"name", "ifname", "", []byte{0, 4}},
		{"mark-data", "ipv4_addr", "mark", []byte{1, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, data := valueTypeList{mustType(tc.key)}, valueTypeList(nil)
			if tc.data != "" {
				data = valueTypeList{mustType(tc.data)}
			}
			have := setUserdata(key, data)
			if !bytes.Equal(have[:min(2, len(have))], tc.want) {
				t.Errorf("userdata %x, want one that begins with %x", have, tc.want)
			}
		})
	}
}
