package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/images/imagestest"
	gate "github.com/cleat-cni/cleat/internal/sandbox"
)

// needImages gives the node an image busybox:1, and skips where runc or busybox are not installed.
func (n *node) needImages(t *testing.T) {
	t.Helper()
	gate.Require(t)
	for _, name := range []string{"runc", "busybox"} {
		if _, err := exec.LookPath(name); err != nil {
			gate.Need(t, name, err.Error())
		}
	}
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	imagestest.Busybox(t, filepath.Join(n.images, "busybox"), path)
}

// output runs a pod of one container to its end and returns what it printed, and how it ended.
func (n *node) output(t *testing.T, p *v1.Pod) (string, *container.Status) {
	t.Helper()
	n.run(t, p)
	n.await(t, p)
	c := n.status(t, p).FindContainer(p.Spec.Containers[0].Name)
	log, err := os.ReadFile(c.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(log)) {
		text.WriteString(strings.SplitN(line, " ", 4)[3])
	}
	return text.String(), c
}

func TestImageContainers(t *testing.T) {
	image := func(script string) v1.Container {
		return v1.Container{Name: "main", Image: "busybox:1", Command: []string{"sh", "-c", script}, TerminationMessagePath: "/dev/termination-log"}
	}
	for _, tt := range []struct {
		name string
		c    v1.Container
		pod  func(p *v1.Pod)
		want string
		code int
	}{
		{name: "of-the-image", c: v1.Container{Name: "main", Image: "busybox:1"}, want: "from the image\n"},
		{name: "args-replace-cmd", c: v1.Container{Name: "main", Image: "busybox:1", Args: []string{"echo $FROM"}}, want: "image\n"},
		{name: "hostname-and-hosts", c: image("hostname; grep -c 10.99.0 /etc/hosts; cat /etc/hostname"), want: "img\n1\nimg\n"},
		{name: "own-processes", c: image("echo $$"), want: "1\n"},
		{name: "shared-processes", c: image("[ $$ = 1 ] || echo shared"), pod: func(p *v1.Pod) { p.Spec.ShareProcessNamespace = new(true) }, want: "shared\n"},
		{name: "user-of-the-pod", c: image("id -u; id -g; id -G"), pod: func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(101)), RunAsGroup: new(int64(5)), SupplementalGroups: []int64{9}, FSGroup: new(int64(12))}
		}, want: "101\n5\n5 9 12\n"},
		{name: "read-only", c: func() v1.Container {
			c := image("touch /x 2>/dev/null || echo read-only")
			c.SecurityContext = &v1.SecurityContext{ReadOnlyRootFilesystem: new(true)}
			return c
		}(), want: "read-only\n"},
		{name: "capabilities", c: func() v1.Container {
			c := image("grep CapBnd /proc/self/status")
			c.SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"NET_BIND_SERVICE"}}}
			return c
		}(), want: "CapBnd:\t0000000000000400\n"},
		{name: "volumes", c: func() v1.Container {
			c := image("echo hi > /data/x; cat /data/x; touch /ro/x 2>/dev/null || echo ro; stat -f -c %T /mem")
			c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "data", MountPath: "/ro", ReadOnly: true}, {Name: "mem", MountPath: "/mem"}}
			return c
		}(), pod: func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "mem", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: new(resource.MustParse("1Mi"))}}}}
		}, want: "hi\nro\ntmpfs\n"},
		{name: "exit-code", c: image("exit 9"), code: 9},
		{name: "limits", c: func() v1.Container {
			c := image("echo $(cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null)")
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("32Mi"), v1.ResourceCPU: resource.MustParse("500m")}
			return c
		}(), want: "33554432\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.needImages(t)
			p := pod("img", tt.c)
			if tt.pod != nil {
				tt.pod(p)
			}
			text, c := n.output(t, p)
			if text != tt.want || c.ExitCode != tt.code || !strings.HasPrefix(c.ImageID, "sha256:") {
				t.Errorf("printed %q, ended %+v, want %q and %d", text, c, tt.want, tt.code)
			}
		})
	}
}

func TestImageContainerEnds(t *testing.T) {
	n := newNode(t)
	n.needImages(t)
	p := pod("words", v1.Container{Name: "main", Image: "busybox:1", Command: []string{"sh", "-c", "echo last words > /dev/termination-log; exit 3"},
		TerminationMessagePath: "/dev/termination-log"})
	_, c := n.output(t, p)
	if c.Message != "last words\n" || c.ExitCode != 3 {
		t.Errorf("%+v, want its last words", c)
	}
	hungry := pod("hungry", v1.Container{Name: "main", Image: "busybox:1", Command: []string{"sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1"},
		Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("32Mi")}}})
	_, c = n.output(t, hungry)
	if c.ExitCode == 0 {
		t.Errorf("one beyond its memory: %+v", c)
	}
	long := pod("long", v1.Container{Name: "main", Image: "busybox:1", Command: []string{"sleep", "600"}})
	n.run(t, long)
	id := n.status(t, long).FindContainer("main").ID
	out, code, err := n.Exec(t.Context(), id, []string{"sh", "-c", "echo in; exit 6"})
	if string(out) != "in\n" || code != 6 || err != nil {
		t.Errorf("exec: %q, %d, %v", out, code, err)
	}
	if err := n.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if c := n.status(t, long).FindContainer("main"); c.ExitCode != 137 {
		t.Errorf("killed: %+v", c)
	}
}
