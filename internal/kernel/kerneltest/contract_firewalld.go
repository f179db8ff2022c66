package kerneltest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// FirewalldFixture is a kernel under test with a firewalld that runs.
type FirewalldFixture struct {
	Fixture
	Start, Stop func() // Start begins anew if it runs, without a source
	AddSource   func(netstate.Source)
	Sources     func(zone string) []string // sorted
}

// Firewalld is the part of the contract that is about zones of firewalld.
func Firewalld(t *testing.T, newFixture func(t *testing.T) FirewalldFixture) {
	t.Helper()
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, f FirewalldFixture)
	}{
		{"make-and-remove", testSources},
		{"by-mark", testSourcesByMark},
		{"undo", testSourcesUndo},
		{"found-before", testSourcesFound},
		{"shared", testSourcesShared},
		{"restarted", testSourcesRestarted},
		{"away", testSourcesAway},
		{"supports", testSourcesSupports},
		{"collect", testSourcesCollect},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, newFixture(t)) })
	}
}

// zoned is what the n-th attachment has in firewalld, with an address of each family.
func zoned(n int) netstate.State {
	s := netstate.State{Owner: attachment(n).Owner}
	for _, a := range attachment(n).Addrs {
		if a.Place == netstate.Pod {
			s.Sources = append(s.Sources, netstate.Source{Zone: "trusted", Owner: s.Owner,
				Prefix: netip.PrefixFrom(a.Prefix.Addr(), a.Prefix.Addr().BitLen())})
		}
	}
	return s
}

// sourcesOf are the sources of attachments as firewalld lists them.
func sourcesOf(list ...int) []string {
	var all []string
	for _, n := range list {
		for _, o := range zoned(n).Sources {
			all = append(all, o.Prefix.String())
		}
	}
	slices.Sort(all)
	return all
}

// zone fails the test unless just these sources are in the zone.
func (f FirewalldFixture) zone(t *testing.T, want []string) {
	t.Helper()
	if got := f.Sources("trusted"); !slices.Equal(got, want) {
		t.Errorf("sources %v, want %v", got, want)
	}
}

func keysOf(s netstate.State) []string {
	var keys []string
	for _, o := range s.Objects() {
		keys = append(keys, o.Key())
	}
	return keys
}

func testSources(t *testing.T, f FirewalldFixture) {
	one, two := zoned(1), zoned(2)
	pod := f.NewPod()
	seen, err := f.open(t, "").Observe(t.Context(), netstate.Query{Firewalld: true})
	if err != nil || !seen.Firewalld {
		t.Errorf("seen %v, %v", seen.Firewalld, err)
	}
	f.expect(t, pod, one, keysOf(one)...)
	f.apply(t, pod, one)
	f.apply(t, pod, one)
	f.apply(t, pod, two)
	f.zone(t, sourcesOf(1, 2))
	f.expect(t, pod, one)
	// Another owner does not take what it names.
	other := zoned(1)
	other.Owner = zoned(3).Owner
	f.remove(t, "", other, false)
	f.zone(t, sourcesOf(1, 2))
	f.remove(t, "", one, false)
	f.remove(t, "", one, false)
	f.zone(t, sourcesOf(2))
	f.expect(t, pod, one, keysOf(one)...)
}

// testSourcesByMark: a removal that knows no address finds what the owner has; one that has nothing to do with firewalld leaves it.
func testSourcesByMark(t *testing.T, f FirewalldFixture) {
	f.apply(t, "", zoned(1))
	f.apply(t, "", zoned(2))
	f.remove(t, "", onlyElements(attachment(1).Elements...), true)
	f.zone(t, sourcesOf(1, 2))
	f.remove(t, "", netstate.State{Owner: zoned(1).Owner, Sources: []netstate.Source{{}}}, false)
	f.zone(t, sourcesOf(2))
}

// testSourcesUndo: of an Apply that fails, at the first source or a later one, nothing stays.
func testSourcesUndo(t *testing.T, f FirewalldFixture) {
	pod := f.NewPod()
	f.apply(t, "", zoned(2))
	before := f.texts(pod)
	for _, bad := range []netstate.Source{
		{Zone: "nowhere", Prefix: netip.MustParsePrefix("10.88.9.9/32")},
		{Zone: "internal", Prefix: zoned(2).Sources[0].Prefix},
	} {
		s := attachment(1)
		s.Tables, s.Elements = nil, nil
		s.Links = s.Links[1:] // the bridge would stay
		s.Links[0].Master, s.Links[0].Port = "", netstate.Port{}
		s.Addrs, s.Routes, s.Sysctls = s.Addrs[2:], nil, nil
		s.Sources = append(zoned(1).Sources, bad)
		if err := f.try(t, pod, s); err == nil {
			t.Errorf("%s is made", bad)
		}
		f.same(t, before, pod)
		f.zone(t, sourcesOf(2))
	}
}

func testSourcesFound(t *testing.T, f FirewalldFixture) {
	first := zoned(1).Sources[0]
	f.AddSource(first)
	f.apply(t, "", zoned(1))
	f.zone(t, sourcesOf(1))
	f.remove(t, "", zoned(1), false)
	f.zone(t, []string{first.Prefix.String()})
	// Nobody of ours has it: it is what the reference plugin left.
	f.remove(t, "", zoned(1), false)
	f.zone(t, nil)
}

// testSourcesShared: a source that two have goes with the second.
func testSourcesShared(t *testing.T, f FirewalldFixture) {
	one, two := zoned(1), zoned(1)
	two.Owner = zoned(2).Owner
	f.apply(t, "", one)
	f.apply(t, "", two)
	f.remove(t, "", one, false)
	f.zone(t, sourcesOf(1))
	f.remove(t, "", two, false)
	f.zone(t, nil)
}

// testSourcesRestarted: what a new start lost is missed, is made again, and then goes as if it had been there all the time.
func testSourcesRestarted(t *testing.T, f FirewalldFixture) {
	f.AddSource(zoned(1).Sources[0])
	f.apply(t, "", zoned(1))
	f.Start()
	f.expect(t, "", zoned(1), keysOf(zoned(1))...)
	f.apply(t, "", zoned(1))
	f.expect(t, "", zoned(1))
	f.remove(t, "", zoned(1), false)
	f.zone(t, nil)
}

// testSourcesAway: without firewalld nothing can be made, and nothing is there to be removed.
func testSourcesAway(t *testing.T, f FirewalldFixture) {
	f.apply(t, "", zoned(1))
	f.Stop()
	seen, err := f.open(t, "").Observe(t.Context(), netstate.Query{Firewalld: true})
	if err != nil || seen.Firewalld {
		t.Errorf("seen %v, %v", seen.Firewalld, err)
	}
	if err := f.try(t, "", zoned(2)); err == nil {
		t.Error("no error without firewalld")
	}
	f.expect(t, "", zoned(1), keysOf(zoned(1))...)
	f.remove(t, "", zoned(1), false)
	f.Start()
	f.AddSource(zoned(1).Sources[0])
	f.remove(t, "", netstate.State{Owner: zoned(1).Owner, Sources: []netstate.Source{{}}}, false)
	f.zone(t, sourcesOf(1)[:1])
}

func testSourcesSupports(t *testing.T, f FirewalldFixture) {
	if err := f.Kernel.Supports(t.Context(), zoned(1)); err != nil {
		t.Error(err)
	}
	f.zone(t, nil)
	bad := zoned(1)
	bad.Sources[1].Zone = "nowhere"
	for range 2 {
		if err := f.Kernel.Supports(t.Context(), bad); err == nil {
			t.Error("there is no such zone, and no error")
		}
		bad = zoned(1)
		f.Stop()
	}
}

func testSourcesCollect(t *testing.T, f FirewalldFixture) {
	for n := range 4 {
		f.apply(t, "", zoned(n+1))
	}
	shared := zoned(1)
	shared.Owner = zoned(2).Owner
	f.apply(t, "", shared)
	found := netstate.State{Owner: zoned(4).Owner, Sources: []netstate.Source{{Zone: "trusted", Prefix: netip.MustParsePrefix("10.99.0.9/32")}}}
	f.AddSource(found.Sources[0])
	f.apply(t, "", found)
	valid := []netstate.Owner{zoned(1).Owner, zoned(3).Owner}
	var want []netstate.Freed
	for _, s := range []netstate.State{zoned(2), shared, zoned(4)} {
		for _, o := range s.Sources {
			o.Owner = s.Owner
			want = append(want, netstate.Freed{Object: o.String(), Mark: s.Owner.Mark(), Owner: s.Owner})
		}
	}
	byText := func(a, b netstate.Freed) int { return strings.Compare(a.Object, b.Object) }
	slices.SortFunc(want, byText)
	for _, dryRun := range []bool{true, false} {
		freed, err := f.Kernel.Collect(t.Context(), network, valid, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(freed, byText)
		if diff := gocmp.Diff(want, freed); diff != "" {
			t.Errorf("dry run %v: freed (-want +got)\n%s", dryRun, diff)
		}
		if dryRun {
			f.zone(t, slices.Sorted(slices.Values(append(sourcesOf(1, 2, 3, 4), "10.99.0.9/32"))))
		}
	}
	f.zone(t, slices.Sorted(slices.Values(append(sourcesOf(1, 3), "10.99.0.9/32"))))
	if freed, err := f.Kernel.Collect(t.Context(), "others", nil, false); err != nil || len(freed) > 0 {
		t.Errorf("collected of another network: %s, %v", fmt.Sprint(freed), err)
	}
}
