package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// Agree does the same with two kernels, step after step, and fails the test where one refuses what the other
// takes, or ends with something else. The steps are chosen by seed: attachments with some
// of their objects left out, doubled or changed are applied and removed in two pods, and links are deleted by hand.
func Agree(t *testing.T, one, other Fixture, seed uint64) {
	t.Helper()
	a := &actor{r: rand.New(rand.NewPCG(seed, 0))}
	sides := []Fixture{one, other}
	pods := make([][]string, len(sides))
	for i, f := range sides {
		pods[i] = []string{f.NewPod(), f.NewPod()}
		// What is shared is there from the beginning: how much of it a failed call makes is not promised.
		f.apply(t, f.NewPod(), attachment(9))
	}
	var log []string
	for range 8 {
		pod := a.r.IntN(2)
		step := a.step()
		var got []string
		for i, f := range sides {
			got = append(got, step.run(t, f, pods[i][pod]))
		}
		log = append(log, fmt.Sprintf("pod %d: %s -> %s", pod, step.text, got[0]))
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Fatalf("seed %d: (-one +other)\n%s\nafter\n%s", seed, diff, strings.Join(log, "\n"))
		}
	}
}

// actor chooses steps.
type actor struct {
	r       *rand.Rand
	applied []netstate.State
}

// step does something and returns what came of it, in words that are the same for all kernels.
type step struct {
	text string
	run  func(t *testing.T, f Fixture, pod string) string
}

func (a *actor) step() step {
	if n := len(a.applied); n > 0 && a.r.IntN(4) == 0 {
		s := a.applied[a.r.IntN(n)]
		sweep := a.r.IntN(2) == 0
		return step{fmt.Sprintf("remove of %s, sweep %v", s.Owner, sweep), func(t *testing.T, f Fixture, pod string) string {
			f.remove(t, pod, s, sweep)
			return f.outcome(t, pod, s, nil)
		}}
	}
	s := attachment(1 + a.r.IntN(3))
	name := "nothing changed"
	if a.r.IntN(4) > 0 {
		all := mutations()
		m := all[a.r.IntN(len(all))]
		name = m.name
		m.do(&s, a.r)
	}
	if check(s) == nil {
		a.applied = append(a.applied, s)
	}
	return step{fmt.Sprintf("apply of %s with %s", s.Owner, name), func(t *testing.T, f Fixture, pod string) string {
		return f.outcome(t, pod, s, f.try(t, pod, s))
	}}
}

// outcome says whether a state was applied, and what of it is not there afterwards. Left out are values of sysctls, which the
// kernel has by itself, and after a failure what is shared: how much of that is made first is not promised.
func (f Fixture) outcome(t *testing.T, pod string, s netstate.State, err error) string {
	t.Helper()
	if err != nil && check(s) != nil {
		return "not valid" // by what it says itself, and there is nothing to compare
	}
	s.Sysctls = nil
	kind := "done"
	if err != nil {
		kind, s.Tables = "refused", []netstate.Table{table()}
		s.Links = slices.DeleteFunc(slices.Clone(s.Links), func(l netstate.Link) bool { return l.Shared })
		s.Addrs = slices.DeleteFunc(slices.Clone(s.Addrs), func(a netstate.Addr) bool { return a.Shared || a.Absent })
		s.Routes = slices.DeleteFunc(slices.Clone(s.Routes), func(r netstate.Route) bool { return r.Absent })
	}
	missing := f.differences(t, pod, s)
	missing = slices.DeleteFunc(missing, func(key string) bool {
		return err != nil && strings.Contains(key, "nft") && !strings.Contains(key, "element")
	})
	slices.Sort(missing)
	return kind + "\n" + strings.Join(missing, "\n")
}

// mutation is a change of a state.
type mutation struct {
	name string
	do   func(s *netstate.State, r *rand.Rand)
}

func mutations() []mutation {
	return slices.Concat(linkMutations(), routeMutations(), otherMutations())
}

// pick returns a pointer to one of a list, which is a copy by now; nil of an empty one.
func pick[T any](list *[]T, r *rand.Rand) *T {
	*list = slices.Clone(*list)
	if len(*list) == 0 {
		return nil
	}
	return &(*list)[r.IntN(len(*list))]
}

// ends changes one end of the pair. The bridge is shared, and what a failed call does to it is not promised.
func ends(s *netstate.State, r *rand.Rand, f func(*netstate.Link)) {
	s.Links = slices.Clone(s.Links)
	f(&s.Links[1+r.IntN(2)])
}

// change changes one of a list.
func change[T any](list *[]T, r *rand.Rand, f func(*T)) {
	if p := pick(list, r); p != nil {
		f(p)
	}
}

func drop[T any](list *[]T, r *rand.Rand) {
	if n := len(*list); n > 0 {
		i := r.IntN(n)
		*list = slices.Delete(slices.Clone(*list), i, i+1)
	}
}

func linkMutations() []mutation {
	return []mutation{
		{"a-link-less", func(s *netstate.State, r *rand.Rand) { drop(&s.Links, r) }},
		// Below 1280 Linux takes the IPv6 addresses of the whole bridge, and an undo can't bring them back.
		{"mtu", func(s *netstate.State, r *rand.Rand) {
			ends(s, r, func(l *netstate.Link) { l.MTU = []int{0, 1280, 1500, 9000}[r.IntN(4)] })
		}},
		{"down", func(s *netstate.State, r *rand.Rand) {
			ends(s, r, func(l *netstate.Link) { l.Down = !l.Down })
		}},
		{"promisc", func(s *netstate.State, r *rand.Rand) {
			ends(s, r, func(l *netstate.Link) { l.Promisc = true })
		}},
		{"own-bridge", func(s *netstate.State, _ *rand.Rand) {
			s.Links = slices.Clone(s.Links)
			s.Links[0].Shared = false
		}},
		{"no-ipv6", func(s *netstate.State, r *rand.Rand) { ends(s, r, func(l *netstate.Link) { l.NoIPv6 = true }) }},
		{"master", func(s *netstate.State, r *rand.Rand) {
			ends(s, r, func(l *netstate.Link) {
				l.Master = []string{"", "cni0", "cni1", "lo"}[r.IntN(4)]
				l.Port = netstate.Port{}
			})
		}},
		{"kind", func(s *netstate.State, r *rand.Rand) { ends(s, r, func(l *netstate.Link) { l.Kind = "warp" }) }},
		{"pod-name", func(s *netstate.State, r *rand.Rand) {
			s.Links = slices.Clone(s.Links)
			s.Links[2].Name = []string{"lo", "eth1", "x/y"}[r.IntN(3)]
			s.Links[1].Peer = s.Links[2].Name
		}},
		{"peer", func(s *netstate.State, r *rand.Rand) {
			ends(s, r, func(l *netstate.Link) { l.Peer = []string{"", "lo", "eth0", "eth1"}[r.IntN(4)] })
		}},
		{"another-bridge", func(s *netstate.State, r *rand.Rand) {
			s.Links = append(s.Links, netstate.Link{Place: netstate.Host, Name: "cni1", Kind: "bridge", MTU: 1300})
		}},
		{"lo", func(s *netstate.State, r *rand.Rand) {
			s.Links = append(s.Links, netstate.Link{Place: netstate.Pod, Name: "lo"})
		}},
	}
}

func routeMutations() []mutation {
	prefix := netip.MustParsePrefix
	return []mutation{
		{"an-addr-less", func(s *netstate.State, r *rand.Rand) { drop(&s.Addrs, r) }},
		{"addr-dev", func(s *netstate.State, r *rand.Rand) {
			change(&s.Addrs, r, func(a *netstate.Addr) { a.Dev = []string{"lo", "eth1", "cni0"}[r.IntN(3)] })
		}},
		{"addr-prefix", func(s *netstate.State, r *rand.Rand) {
			change(&s.Addrs, r, func(a *netstate.Addr) {
				a.Prefix = []netip.Prefix{prefix("10.88.0.1/16"), prefix("10.88.0.9/24"), prefix("192.0.2.1/32"), prefix("fd00:88::9/128")}[r.IntN(4)]
			})
		}},
		{"addr-shared", func(s *netstate.State, r *rand.Rand) {
			change(&s.Addrs, r, func(a *netstate.Addr) { a.Shared = !a.Shared })
		}},
		{"addr-absent", func(s *netstate.State, r *rand.Rand) { change(&s.Addrs, r, func(a *netstate.Addr) { a.Absent = true }) }},
		{"addr-no-route", func(s *netstate.State, r *rand.Rand) {
			change(&s.Addrs, r, func(a *netstate.Addr) { a.NoPrefixRoute = true })
		}},
		{"a-route-less", func(s *netstate.State, r *rand.Rand) { drop(&s.Routes, r) }},
		{"route-via", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) {
				rt.Via = []netip.Addr{{}, gateway4, gateway6, netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("fe80::1")}[r.IntN(5)]
			})
		}},
		{"route-on-link", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) { rt.OnLink = true })
		}},
		{"route-scope", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) { rt.Scope = scopeLink })
		}},
		{"route-table", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) { rt.Table = 100 })
		}},
		{"route-priority", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) { rt.Priority = 50 })
		}},
		{"route-absent", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) { rt.Absent = true })
		}},
		{"subnet-absent", func(s *netstate.State, r *rand.Rand) {
			s.Routes = append(slices.Clone(s.Routes), netstate.Route{Place: netstate.Pod, Dst: prefix("10.88.0.0/16"), Dev: "eth0", Absent: true})
			*s = netstate.Merge(*s) // as an engine does, so that the address comes without it
		}},
		{"route-dst", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) {
				rt.Dst = []netip.Prefix{prefix("10.88.0.0/16"), prefix("192.0.2.0/24"), prefix("fd00:99::/64"), prefix("192.0.2.1/24")}[r.IntN(4)]
			})
		}},
		{"route-dev", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) { rt.Dev = []string{"", "lo", "eth1"}[r.IntN(3)] })
		}},
		{"route-src", func(s *netstate.State, r *rand.Rand) {
			change(&s.Routes, r, func(rt *netstate.Route) { rt.Src = []netip.Addr{netip.MustParseAddr("10.88.0.2"), gateway6}[r.IntN(2)] })
		}},
		{"more-specific", func(s *netstate.State, r *rand.Rand) {
			s.Routes = append(slices.Clone(s.Routes),
				netstate.Route{Place: netstate.Pod, Dst: prefix("192.0.2.0/24"), Dev: "eth0"},
				netstate.Route{Place: netstate.Pod, Dst: prefix("198.51.100.0/24"), Via: netip.MustParseAddr("192.0.2.1"), Dev: "eth0"})
		}},
	}
}

func otherMutations() []mutation {
	host := func(s *netstate.State) string { return s.Owner.HostName("veth") }
	return []mutation{
		{"rule", func(s *netstate.State, r *rand.Rand) {
			s.Rules = append(s.Rules, netstate.Rule{Place: netstate.Pod, From: netip.MustParsePrefix("10.88.0.0/16"), Table: 100, Priority: 7 * r.IntN(2)})
		}},
		{"neighbour", func(s *netstate.State, r *rand.Rand) {
			s.Neighbours = append(s.Neighbours, netstate.Neighbour{Place: netstate.Pod, Dev: []string{"eth0", "eth1"}[r.IntN(2)],
				Addr: gateway4, MAC: "0a:58:0a:58:00:01"})
		}},
		{"tbf", func(s *netstate.State, r *rand.Rand) {
			s.Qdiscs = append(s.Qdiscs, netstate.Qdisc{Place: netstate.Host, Dev: host(s), Kind: "tbf", Parent: 0xffffffff, Handle: 0x10000,
				Rate: 1 << 20, Burst: 1 << 16, Limit: 1 << 17})
		}},
		{"ingress", func(s *netstate.State, r *rand.Rand) {
			s.Qdiscs = append(s.Qdiscs, netstate.Qdisc{Place: netstate.Host, Dev: host(s), Kind: "ingress", Parent: ingressParent, Handle: ingressHandle})
		}},
		{"filter", func(s *netstate.State, r *rand.Rand) {
			s.Filters = append(s.Filters, netstate.Filter{Place: netstate.Host, Dev: host(s), To: bridge})
		}},
		{"an-element-less", func(s *netstate.State, r *rand.Rand) { drop(&s.Elements, r) }},
		{"element-port", func(s *netstate.State, r *rand.Rand) {
			change(&s.Elements, r, func(e *netstate.Element) {
				if len(e.Match) == 2 {
					e.Match = []string{"tcp", fmt.Sprint(8001 + r.IntN(3))}
				}
			})
		}},
		{"element-lives", func(s *netstate.State, r *rand.Rand) {
			change(&s.Elements, r, func(e *netstate.Element) { e.Lives = []string{"", "link lo", "link none"}[r.IntN(3)] })
		}},
		{"element-value", func(s *netstate.State, r *rand.Rand) {
			change(&s.Elements, r, func(e *netstate.Element) { e.Match = []string{[]string{"10.88.0.7", "x"}[r.IntN(2)]} })
		}},
		{"sysctl", func(s *netstate.State, r *rand.Rand) {
			change(&s.Sysctls, r, func(v *netstate.Sysctl) {
				v.Name = []string{"net/ipv4/conf/eth1/arp_notify", "net/ipv4/conf/all/arp_notify", "net/ipv4/conf/lo/arp_notify", "vm/none"}[r.IntN(4)]
			})
		}},
		{"no-tables", func(s *netstate.State, r *rand.Rand) { s.Tables = nil }},
		{"set-type", func(s *netstate.State, r *rand.Rand) {
			s.Tables[0].Sets[1].Key = []string{"ether_addr"}
		}},
	}
}
