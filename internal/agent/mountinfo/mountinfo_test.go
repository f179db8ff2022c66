package mountinfo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `31 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
33 31 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
34 31 0:29 / /sys/fs/cgroup/with\040space rw - cgroup cgroup rw,pids
broken
 - 
`

func TestParse(t *testing.T) {
	want := []Mount{{"/sys/fs/cgroup", "tmpfs", "ro,mode=755"}, {"/sys/fs/cgroup/memory", "cgroup", "rw,memory"}, {"/sys/fs/cgroup/with space", "cgroup", "rw,pids"}}
	if diff := cmp.Diff(want, Parse([]byte(sample))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBelow(t *testing.T) {
	mounts := []Mount{{Point: "/a"}, {Point: "/a/b"}, {Point: "/ab"}, {Point: "/a/b/c"}, {Point: "/a/b"}}
	if diff := cmp.Diff([]string{"/a/b", "/a/b/c", "/a/b", "/a"}, Below(mounts, "/a")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(t *testing.T, data []byte) { Parse(data) })
}
