package kerneltest_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/netstate"
)

var owner = netstate.Owner{Network: "pods", ContainerID: "c1", IfName: "eth0"}

func sample() netstate.State {
	return netstate.State{
		Owner: owner,
		Links: []netstate.Link{
			{Place: netstate.Host, Name: "cni0", Kind: "bridge", MTU: 1400, Shared: true},
			{Place: netstate.Host, Name: "veth1", Kind: "veth", Peer: "eth0", PeerPlace: netstate.Pod, Master: "cni0"},
			{Place: netstate.Pod, Name: "eth0", Kind: "veth", MAC: "0a:58:0a:58:00:02"},
		},
		Sysctls: []netstate.Sysctl{{Place: netstate.Host, Name: "net/ipv4/ip_forward", Value: "1", Shared: true}},
		Addrs: []netstate.Addr{
			{Place: netstate.Host, Dev: "cni0", Prefix: netip.MustParsePrefix("10.88.0.1/16"), Shared: true},
			{Place: netstate.Pod, Dev: "eth0", Prefix: netip.MustParsePrefix("10.88.0.2/16")},
		},
		Routes: []netstate.Route{{Place: netstate.Pod, Dst: netip.MustParsePrefix("0.0.0.0/0"),
			Via: netip.MustParseAddr("10.88.0.1"), Dev: "eth0"}},
		Tables: []netstate.Table{{Family: "inet", Name: "cleat", Sets: []netstate.Set{{Name: "masq4", Key: []string{"ipv4_addr"}}}}},
		Elements: []netstate.Element{{Family: "inet", Table: "cleat", Set: "masq4", Match: []string{"10.88.0.2"},
			Owner: owner, Lives: "link veth1"}},
	}
}

func TestDump(t *testing.T) {
	m := kerneltest.NewMemory(kerneltest.Config{})
	pod := m.NewPod()
	empty := m.Dump()
	s, err := m.Open(t.Context(), pod, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Apply(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`netns host
host addr 10.88.0.1/16 dev cni0
host link cni0 kind bridge mac 02:81:f3:de:9a:8a mtu 1400
host link lo mtu 65536
host link veth1 kind veth mac 02:d3:e5:e0:66:38 mtu 1500 peer /run/netns/pod1/eth0 master cni0 owner MARK
host nft table inet cleat
host nft table inet cleat set masq4 element 10.88.0.2 owner MARK
host nft table inet cleat set masq4 type ipv4_addr
host sysctl net/ipv4/ip_forward value 1
netns /run/netns/pod1
pod  addr 10.88.0.2/16 dev eth0
pod  link eth0 kind veth mac 0a:58:0a:58:00:02 mtu 1500 peer host/veth1 owner MARK
pod  link lo mtu 65536 down
pod  route 0.0.0.0/0 via 10.88.0.1 dev eth0
`, "MARK", owner.Mark())
	if diff := cmp.Diff(want, m.Dump()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if strings.Count(empty, "\n") != 4 {
		t.Errorf("the empty kernel is\n%s", empty)
	}
}

// TestFault lets each step of an Apply fail in turn: what is shared and was made before stays, all
// else is as before.
func TestFault(t *testing.T) {
	var steps []string
	m := kerneltest.NewMemory(kerneltest.Config{Fault: func(step string) error { steps = append(steps, step); return nil }})
	apply(t, m, m.NewPod(), nil)
	steps = steps[1:] // open
	if len(steps) < len(sample().Objects()) {
		t.Fatalf("only the steps %q", steps)
	}
	boom := errors.New("boom")
	for _, step := range steps {
		t.Run(strings.ReplaceAll(step, "/", "-"), func(t *testing.T) {
			m := kerneltest.NewMemory(kerneltest.Config{Fault: func(s string) error {
				if s == step {
					return boom
				}
				return nil
			}})
			pod := m.NewPod()
			apply(t, m, pod, boom)
			dump := m.Dump()
			if strings.Contains(dump, owner.Mark()) || strings.Contains(dump, "10.88.0.2") || strings.Contains(dump, "veth") {
				t.Errorf("something of the owner is left:\n%s", dump)
			}
			shared := strings.Contains(dump, "link cni0")
			if first := step == steps[0]; shared == first {
				t.Errorf("shared bridge there: %v\n%s", shared, dump)
			}
		})
	}
}

func apply(t *testing.T, m *kerneltest.Memory, pod string, want error) {
	t.Helper()
	s, err := m.Open(t.Context(), pod, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Apply(t.Context(), sample())
	if !errors.Is(err, want) {
		t.Fatalf("Apply = %v, want %v", err, want)
	}
	if _, ok := errors.AsType[*netstate.ObjectError](err); want != nil && !ok {
		t.Errorf("%v is about no object", err)
	}
}

// TestFaultRemove lets one removal fail: the others go on, and the next call finishes.
func TestFaultRemove(t *testing.T) {
	boom := errors.New("boom")
	fail := "remove host link veth1"
	m := kerneltest.NewMemory(kerneltest.Config{Fault: func(step string) error {
		if step == fail {
			return boom
		}
		return nil
	}})
	pod := m.NewPod()
	apply(t, m, pod, nil)
	s, err := m.Open(t.Context(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Remove(t.Context(), sample(), false); !errors.Is(err, boom) {
		t.Fatalf("Remove = %v, want %v", err, boom)
	}
	if dump := m.Dump(); strings.Contains(dump, "element") || !strings.Contains(dump, "link veth1") {
		t.Errorf("the element was to go and the link to stay:\n%s", dump)
	}
	fail = ""
	if err := s.Remove(t.Context(), sample(), false); err != nil {
		t.Fatal(err)
	}
	if dump := m.Dump(); strings.Contains(dump, owner.Mark()) {
		t.Errorf("left:\n%s", dump)
	}
}

// TestFaultElsewhere lets the calls fail that change nothing.
func TestFaultElsewhere(t *testing.T) {
	boom := errors.New("boom")
	var fail string
	m := kerneltest.NewMemory(kerneltest.Config{Fault: func(step string) error {
		if step == fail {
			return boom
		}
		return nil
	}})
	s, err := m.Open(t.Context(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for step, call := range map[string]func() error{
		"open " + kerneltest.HostPath: func() error { _, err := m.Open(t.Context(), kerneltest.HostPath, true); return err },
		"observe":                     func() error { _, err := s.Observe(t.Context(), netstate.Query{}); return err },
		"diff":                        func() error { _, err := s.Diff(t.Context(), netstate.State{}); return err },
		"collect pods":                func() error { _, err := m.Collect(t.Context(), "pods", nil, false); return err },
	} {
		fail = step
		if err := call(); !errors.Is(err, boom) {
			t.Errorf("%s: %v, want %v", step, err, boom)
		}
		fail = ""
		if err := call(); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// A namespace lives as long as a session has it open, as in Linux.
func TestPodLivesWithSession(t *testing.T) {
	m := kerneltest.NewMemory(kerneltest.Config{})
	pod := m.NewPod()
	s, err := m.Open(t.Context(), pod, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	if err := m.RemovePod(pod); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Open(t.Context(), pod, false); !errors.Is(err, netstate.ErrNotExist) {
		t.Errorf("Open = %v, want %v", err, netstate.ErrNotExist)
	}
	if dump := m.Dump(); !strings.Contains(dump, "link veth1") {
		t.Errorf("the peer went while the session was open:\n%s", dump)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if dump := m.Dump(); strings.Contains(dump, "link veth1") || strings.Contains(dump, pod) {
		t.Errorf("left:\n%s", dump)
	}
	if err := m.RemovePod(pod); !errors.Is(err, netstate.ErrNotExist) {
		t.Errorf("RemovePod = %v, want %v", err, netstate.ErrNotExist)
	}
}
