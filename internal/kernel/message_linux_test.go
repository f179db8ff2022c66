package kernel

import (
	"errors"
	"net/netip"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

func TestAttributesAreReadAsWritten(t *testing.T) {
	m := newMessage(4)
	m.u8(1, 7)
	m.u32(2, 1<<31)
	m.text(3, "eth0")
	m.nest(4|unix.NLA_F_NESTED, func() { m.u64(5, 1<<40) })
	type attribute struct {
		Kind  uint16
		Value string
	}
	var got []attribute
	for kind, v := range attributes(m.family()[4:]) {
		got = append(got, attribute{kind, string(v)})
	}
	nested := string(native.AppendUint16(nil, 12)) + string(native.AppendUint16(nil, 5)) + string(native.AppendUint64(nil, 1<<40))
	want := []attribute{{1, "\x07"}, {2, string(native.AppendUint32(nil, 1<<31))}, {3, "eth0\x00"}, {4, nested}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("attributes (-want +got)\n%s", d)
	}
}

func TestAttributesCutShort(t *testing.T) {
	m := newMessage(0)
	m.text(1, "a name")
	m.text(2, "another")
	whole := m.family()
	for n := range len(whole) {
		count := 0
		for _, v := range attributes(whole[:n]) {
			count++
			if len(v) > n {
				t.Fatalf("a value of %d bytes in %d", len(v), n)
			}
		}
		if count > 1 {
			t.Errorf("%d attributes in %d of %d bytes", count, n, len(whole))
		}
	}
}

func TestParseAnswer(t *testing.T) {
	header := make([]byte, headerLen)
	native.PutUint32(header, headerLen+8) // of a request with a body of 8 bytes
	texts := newMessage(0)
	texts.text(unix.NLMSGERR_ATTR_MSG, "Device is down")
	fail := native.AppendUint32(nil, 0xffffffff-uint32(unix.ENETDOWN)+1)
	capped := append(append(append([]byte(nil), fail...), header...), texts.family()...)
	whole := append(append(append(append([]byte(nil), fail...), header...), make([]byte, 8)...), texts.family()...)
	for _, tc := range []struct {
		name  string
		flags uint16
		body  []byte
		want  string
	}{
		{"acknowledgement", unix.NLM_F_CAPPED, append(make([]byte, 4), header...), ""},
		{"no-text", 0, append(append([]byte(nil), fail...), header...), "network is down"},
		{"capped", unix.NLM_F_CAPPED | unix.NLM_F_ACK_TLVS, capped, "network is down (kernel: Device is down)"},
		{"whole", unix.NLM_F_ACK_TLVS, whole, "network is down (kernel: Device is down)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := parseAnswer(tc.flags, tc.body)
			if tc.want == "" {
				if err != nil {
					t.Errorf("parseAnswer = %v", err)
				}
				return
			}
			if err == nil || err.Error() != tc.want || !errors.Is(err, unix.ENETDOWN) {
				t.Errorf("parseAnswer = %v, want %s", err, tc.want)
			}
		})
	}
	if err := parseAnswer(0, []byte{1}); !errors.Is(err, errShort) {
		t.Errorf("an answer of one byte: %v", err)
	}
}

func TestBroadcast(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.88.0.5/16":     "10.88.255.255",
		"192.0.2.129/25":   "192.0.2.255",
		"192.0.2.5/30":     "192.0.2.7",
		"192.0.2.4/31":     "",
		"192.0.2.4/32":     "",
		"fd00::1/64":       "",
		"172.16.1.1/12":    "172.31.255.255",
		"255.255.255.1/24": "255.255.255.255",
	} {
		got := ""
		if a, ok := broadcast(netip.MustParsePrefix(prefix)); ok {
			got = a.String()
		}
		if got != want {
			t.Errorf("broadcast of %s = %q, want %q", prefix, got, want)
		}
	}
}

// FuzzParse gives the parsers whatever a message could hold. What they read has to be within the message, and what we
// write has to be read as it was meant.
func FuzzParse(f *testing.F) {
	rt := netstate.Route{Place: netstate.Pod, Dst: netip.MustParsePrefix("10.0.0.0/8"), Via: netip.MustParseAddr("fd00::1"), Table: 1000, MTU: 1400}
	ad := netstate.Addr{Prefix: netip.MustParsePrefix("10.1.2.3/24")}
	rl := netstate.Rule{From: netip.MustParsePrefix("10.1.0.0/16"), Table: 7}
	q := netstate.Qdisc{Kind: kindTBF, Rate: 1, Burst: 1, Limit: 1}
	link := linkMessage(5, unix.IFF_UP, 0)
	link.text(unix.IFLA_IFNAME, "eth0")
	putPort(&link, netstate.Port{Hairpin: true})
	vlan := vlanMessage(&netstate.Link{}, 3, netstate.VLAN{From: 5, To: 9, PVID: true})
	qdisc, err := qdiscMessage(&q, 3)
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range []message{routeMessage(&rt, 4), addrMessage(&ad, 4), ruleMessage(&rl), qdisc, link, vlan, redirectMessage(3, 4)} {
		f.Add(m.family())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if d := parseDevice(netstate.Host, b); d != nil {
			_ = d.link().String()
		}
		if a, ok := parseAddr(b); ok && !a.prefix.IsValid() {
			t.Errorf("address %v is not valid", a.prefix)
		}
		for _, r := range parseRoutes(netstate.Pod, b) {
			if !r.Dst.IsValid() {
				t.Errorf("destination %v is not valid", r.Dst)
			}
			_ = r.message()
		}
		if rl, ok := parsePolicy(netstate.Pod, b); ok {
			_ = rl.String()
		}
		for _, v := range parseVLANs(b) {
			_ = v.String()
		}
		if len(b) >= sizeofTcMsg {
			_ = parseQdisc(&device{}, b).String()
			parseRedirect(b[sizeofTcMsg:])
		}
		_ = parseAnswer(unix.NLM_F_ACK_TLVS, b)
		(&notices{waiting: map[int32][]chan struct{}{}}).dispatch(b)
	})
}

// hideIPv6 runs f on a thread that sees a /proc without IPv6, as on a kernel started with ipv6.disable=1.
func hideIPv6(t *testing.T, f func()) {
	t.Helper()
	sandbox.Require(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			done <- err
			return
		}
		if err := unix.Mount("tmpfs", procSys+"/net/ipv6", "tmpfs", 0, ""); err != nil {
			done <- err
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		sandbox.Need(t, "mount", err.Error())
	}
}

func TestSysctlsWithoutIPv6(t *testing.T) {
	hideIPv6(t, func() {
		acceptRA := netstate.Sysctl{Place: netstate.Pod, Name: "net/ipv6/conf/eth0/accept_ra", Value: "0"}
		if _, err := readSysctl(acceptRA); !errors.Is(err, errNoIPv6) {
			t.Errorf("%s: %v, want %v", acceptRA.Name, err, errNoIPv6)
		}
		disable := netstate.Sysctl{Place: netstate.Pod, Name: "net/ipv6/conf/eth0/disable_ipv6", Value: "1"}
		if v, err := readSysctl(disable); v != "1" || err != nil {
			t.Errorf("%s is %q, %v: it is disabled as asked", disable.Name, v, err)
		}
		disable.Value = "0"
		if _, err := readSysctl(disable); !errors.Is(err, errNoIPv6) {
			t.Errorf("%s=0: %v, want %v", disable.Name, err, errNoIPv6)
		}
		if _, err := readSysctl(netstate.Sysctl{Place: netstate.Pod, Name: "net/ipv4/ip_forward"}); err != nil {
			t.Error(err)
		}
	})
}

func TestEqualValue(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"4096\t87380\t6291456", "4096 87380 6291456", true},
		{"1\n", "1", true},
		{"1", "10", false},
		{"1 0", "10", false},
	} {
		if got := equalValue(tc.a, tc.b); got != tc.want {
			t.Errorf("equalValue(%q, %q) = %v", tc.a, tc.b, got)
		}
	}
}
