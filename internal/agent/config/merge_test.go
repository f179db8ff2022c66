package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(uid, name string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "default"}}
	for _, c := range change {
		c(p)
	}
	return p
}

// text returns updates as OP name/uid…
func text(updates []PodUpdate) []string {
	var list []string
	for _, u := range updates {
		var line strings.Builder
		line.WriteString(u.Op.String())
		for _, p := range u.Pods {
			fmt.Fprintf(&line, " %s/%s", p.Name, p.UID)
		}
		list = append(list, line.String())
	}
	return list
}

func TestMerge(t *testing.T) {
	host := func(p *v1.Pod) { p.Spec.HostNetwork = true }
	deleted := func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	running := func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }
	note := func(key string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Annotations = map[string]string{key: "x"} }
	}
	tests := []struct {
		name    string
		first   []*v1.Pod
		second  []*v1.Pod
		want    []string // of the second set
		dropped []string
	}{
		{"nothing-changes", []*v1.Pod{pod("1", "a")}, []*v1.Pod{pod("1", "a")}, nil, nil},
		{"removed", []*v1.Pod{pod("1", "a"), pod("2", "b")}, []*v1.Pod{pod("2", "b")}, []string{"REMOVE a/1"}, nil},
		{"remove-comes-before-add", []*v1.Pod{pod("1", "a")}, []*v1.Pod{pod("2", "a")}, []string{"REMOVE a/1", "ADD a/2"}, nil},
		{"all-at-once", []*v1.Pod{pod("1", "a"), pod("2", "b"), pod("3", "c"), pod("4", "d")},
			[]*v1.Pod{pod("4", "d", running), pod("3", "c", deleted), pod("2", "b", host), pod("5", "e")},
			[]string{"REMOVE a/1", "ADD e/5", "UPDATE b/2", "DELETE c/3", "RECONCILE d/4"}, nil},
		{"annotation", []*v1.Pod{pod("1", "a")}, []*v1.Pod{pod("1", "a", note("mine"))}, []string{"UPDATE a/1"}, nil},
		{"annotations-of-the-agent", []*v1.Pod{pod("1", "a")}, []*v1.Pod{pod("1", "a", note(FirstSeenAnnotation))}, nil, nil},
		{"uid-under-another-name", []*v1.Pod{pod("1", "a")}, []*v1.Pod{pod("1", "b")}, []string{"REMOVE a/1", "ADD b/1"}, nil},
		{"name-twice-the-first-stays", nil, []*v1.Pod{pod("1", "a"), pod("2", "a")}, []string{"ADD a/1"},
			[]string{"a/2: a pod of this name is there already, of the same source"}},
		{"name-twice-the-known-stays", []*v1.Pod{pod("2", "a")}, []*v1.Pod{pod("1", "a"), pod("2", "a")}, nil,
			[]string{"a/1: a pod of this name is there already, of the same source"}},
		{"uid-twice", nil, []*v1.Pod{pod("1", "a"), pod("1", "b")}, []string{"ADD a/1"}, []string{"b/1: a pod of this UID is there already, of the same source"}},
		{"name-of-another-source", nil, []*v1.Pod{pod("1", "other")}, nil, []string{"other/1: a pod of this name is there already, of source http"}},
		{"uid-of-another-source", nil, []*v1.Pod{pod("9", "a")}, nil, []string{"a/9: a pod of this UID is there already, of source http"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := storage{}
			s.merge("http", []*v1.Pod{pod("9", "other")}, time.Unix(0, 0))
			s.merge("file", tt.first, time.Unix(0, 0))
			got := s.merge("file", tt.second, time.Unix(100, 0))
			if diff := cmp.Diff(tt.want, text(got.updates)); diff != "" {
				t.Errorf("updates (-want +got):\n%s", diff)
			}
			var dropped []string
			for _, d := range got.dropped {
				dropped = append(dropped, d.pod.Name+"/"+string(d.pod.UID)+": "+d.reason)
			}
			if diff := cmp.Diff(tt.dropped, dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMergeFreesWhatASourceGaveUp is about a pod that comes in once the source that had its name has no more.
func TestMergeFreesWhatASourceGaveUp(t *testing.T) {
	s := storage{}
	s.merge("http", []*v1.Pod{pod("1", "a")}, time.Unix(0, 0))
	if got := s.merge("file", []*v1.Pod{pod("2", "a")}, time.Unix(0, 0)); len(got.dropped) != 1 {
		t.Fatalf("dropped %v, want one", got.dropped)
	}
	s.merge("http", nil, time.Unix(0, 0))
	got := s.merge("file", []*v1.Pod{pod("2", "a")}, time.Unix(0, 0))
	if diff := cmp.Diff([]string{"ADD a/2"}, text(got.updates)); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

func TestFirstEmptySetIsAnAddOfNone(t *testing.T) {
	s := storage{}
	if diff := cmp.Diff([]string{"ADD"}, text(s.merge("file", nil, time.Now()).updates)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	if got := s.merge("file", nil, time.Now()); len(got.updates) > 0 {
		t.Errorf("second: %v", text(got.updates))
	}
}

func TestMergeKeepsWhenAPodWasFirstSeen(t *testing.T) {
	s := storage{}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.merge("file", []*v1.Pod{pod("1", "a")}, at)
	got := s.merge("file", []*v1.Pod{pod("1", "a", func(p *v1.Pod) { p.Spec.HostPID = true })}, at.Add(time.Hour)).updates[0].Pods[0]
	want := map[string]string{SourceAnnotation: "file", FirstSeenAnnotation: "2026-01-02T03:04:05Z"}
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// FuzzMerge hands over sets that the input makes, and follows the stream as the loop does. Two bytes are a pod: its source, name,
// UID and whether its spec differs; a zero byte ends a set.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{1, 1, 0, 1, 1, 2, 2, 0, 0, 129, 1})
	f.Add([]byte{1, 1, 17, 1, 0, 17, 1, 0, 1, 2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := storage{}
		followed := map[string]map[types.UID]string{"file": {}, "http": {}}
		var set []*v1.Pod
		for i := 0; i+1 < len(data); i += 2 {
			if data[i] == 0 {
				source := []string{"file", "http"}[data[i+1]&1]
				follow(t, followed[source], s.merge(source, set, time.Unix(0, 0)))
				check(t, s, followed)
				set = nil
				continue
			}
			set = append(set, pod(fmt.Sprint(data[i+1]%8), fmt.Sprint(data[i]%8), func(p *v1.Pod) { p.Spec.HostPID = data[i] > 127 }))
		}
	})
}

// follow does what the stream says, and fails on what can't be done.
func follow(t *testing.T, have map[types.UID]string, m merged) {
	t.Helper()
	last := -1
	order := []Op{REMOVE, ADD, UPDATE, DELETE, RECONCILE}
	for _, u := range m.updates {
		if at := slices.Index(order, u.Op); at <= last {
			t.Errorf("order %v", text(m.updates))
		} else {
			last = at
		}
		for _, p := range u.Pods {
			name, known := have[p.UID]
			if known == (u.Op == ADD) || known && name != p.Name {
				t.Errorf("%v of %s/%s, known as %q", u.Op, p.Name, p.UID, name)
			}
			if have[p.UID] = p.Name; u.Op == REMOVE {
				delete(have, p.UID)
			}
		}
	}
}

// check compares what was followed with the store, in which no name and no UID may stand twice.
func check(t *testing.T, s storage, followed map[string]map[types.UID]string) {
	t.Helper()
	names := map[string]bool{}
	uids := map[types.UID]bool{}
	for source, list := range s {
		have := map[types.UID]string{}
		for uid, p := range list {
			have[uid] = p.Name
			if names[p.Name] || uids[uid] {
				t.Errorf("%s/%s is there twice", p.Name, uid)
			}
			names[p.Name], uids[uid] = true, true
		}
		if !maps.Equal(have, followed[source]) {
			t.Errorf("%s: has %v, the stream says %v", source, have, followed[source])
		}
	}
}

func TestOpNames(t *testing.T) {
	var names []string
	for o := SET; o <= RECONCILE; o++ {
		names = append(names, o.String())
	}
	if got := strings.Join(names, " "); got != "SET ADD DELETE REMOVE UPDATE RECONCILE" {
		t.Error(got)
	}
}
