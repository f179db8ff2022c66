package native

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/images"
	"github.com/cleat-cni/cleat/internal/agent/monitor"
)

// The files of a container's folder.
const (
	bundleDir   = "bundle"
	rootfsDir   = "rootfs" // below the bundle: the image's files, with what the container writes on top
	upperDir    = "upper"
	workDir     = "work"
	processFile = "process.json" // specs.Process, for exec
	lastWordsOf = "termination-log"
)

// prepareImage makes the bundle of a container from an image, for runc.
func (r *Runtime) prepareImage(ctx context.Context, s *sandbox, c *ctr, start container.Start, spec *monitor.Spec) error {
	if r.cfg.Images == nil {
		return &container.Error{Reason: container.ReasonImagePull, Err: errNoImages}
	}
	img, err := r.cfg.Images.Get(ctx, start.Container.Image)
	if err != nil {
		return &container.Error{Reason: container.ReasonImagePull, Err: fmt.Errorf("image %s: %w", start.Container.Image, err)}
	}
	bundle := filepath.Join(c.dir, bundleDir)
	if err := overlay(c.dir, img.RootFS); err != nil {
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	conf, err := r.runtimeSpec(s, c, start, img)
	if err != nil {
		return &container.Error{Reason: container.ReasonConfig, Err: err}
	}
	if err := errors.Join(save(bundle, "config.json", conf), save(c.dir, processFile, conf.Process)); err != nil {
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	r.mu.Lock()
	c.rec.ImageID = img.ID
	c.rec.StopSignal = cmp.Or(unix.SignalNum(img.StopSignal), unix.SIGTERM)
	r.mu.Unlock()
	spec.Runc = &monitor.RuncSpec{Path: r.cfg.Runc, Root: r.path("runc"), Bundle: bundle, ID: c.rec.ID}
	return nil
}

// overlay mounts a file system at the bundle's rootfs in which the container writes into its own folder (overlayfs, Linux 4.0).
func overlay(dir, lower string) error {
	rootfs := filepath.Join(dir, bundleDir, rootfsDir)
	for _, d := range []string{rootfs, filepath.Join(dir, upperDir), filepath.Join(dir, workDir)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", escape(lower), escape(filepath.Join(dir, upperDir)), escape(filepath.Join(dir, workDir)))
	if err := unix.Mount("overlay", rootfs, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount the image's files: %w", err)
	}
	return nil
}

// discard removes a container's folder, with what is mounted in it.
func (r *Runtime) discard(dir string) error {
	err := unix.Unmount(filepath.Join(dir, bundleDir, rootfsDir), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmount the container's files: %w", err)
	}
	return os.RemoveAll(dir)
}

// runtimeSpec is the container as the OCI runtime specification 1.0 has it.
func (r *Runtime) runtimeSpec(s *sandbox, c *ctr, start container.Start, img *images.Image) (*specs.Spec, error) {
	command, args := start.Command, start.Args
	if len(command) == 0 {
		command = img.Entrypoint
		if len(args) == 0 {
			args = img.Cmd
		}
	}
	command = append(slices.Clone(command), args...)
	if len(command) == 0 {
		return nil, fmt.Errorf("container %s: neither the pod nor the image says what to run", c.rec.Name)
	}
	rootfs := filepath.Join(c.dir, bundleDir, rootfsDir)
	user, err := containerUser(start, img, rootfs)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", c.rec.Name, err)
	}
	mounts, err := r.mounts(c, start)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", c.rec.Name, err)
	}
	security := start.Container.SecurityContext
	if security == nil {
		security = &v1.SecurityContext{}
	}
	privileged := security.Privileged != nil && *security.Privileged
	caps, err := capabilities(security, privileged)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", c.rec.Name, err)
	}
	if user.UID != 0 { // as runc and containerd have it: what is permitted is lost with another user
		caps.Effective, caps.Permitted = nil, nil
	}
	spec := &specs.Spec{
		Version: specs.Version,
		Root:    &specs.Root{Path: rootfsDir, Readonly: security.ReadOnlyRootFilesystem != nil && *security.ReadOnlyRootFilesystem},
		Process: &specs.Process{
			User: user, Args: command, Env: environment(start, img.Env), Capabilities: caps,
			Cwd:             cmp.Or(start.Container.WorkingDir, img.WorkingDir, "/"),
			NoNewPrivileges: security.AllowPrivilegeEscalation != nil && !*security.AllowPrivilegeEscalation,
		},
		Mounts: mounts,
		Linux: &specs.Linux{
			Namespaces: r.linuxNamespaces(s, start), CgroupsPath: "/" + c.rec.Cgroup, Resources: resources(start.Container, privileged),
			RootfsPropagation: "rslave",
		},
	}
	if !privileged {
		spec.Linux.MaskedPaths, spec.Linux.ReadonlyPaths = maskedPaths(), readonlyPaths()
	}
	return spec, nil
}

// linuxNamespaces: network, UTS and IPC are the pod's, mounts are the container's, and processes are its own unless the pod shares
// them.
func (r *Runtime) linuxNamespaces(s *sandbox, start container.Start) []specs.LinuxNamespace {
	pod := start.Pod
	shared := pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace
	kinds := map[int]specs.LinuxNamespaceType{unix.CLONE_NEWNET: specs.NetworkNamespace, unix.CLONE_NEWUTS: specs.UTSNamespace,
		unix.CLONE_NEWIPC: specs.IPCNamespace, unix.CLONE_NEWPID: specs.PIDNamespace}
	list := []specs.LinuxNamespace{{Type: specs.MountNamespace}}
	for _, n := range s.namespaces(pod) {
		ns := specs.LinuxNamespace{Type: kinds[n.Type], Path: n.Path}
		if n.Type == unix.CLONE_NEWPID && !shared {
			ns.Path = ""
		}
		list = append(list, ns)
	}
	// Without a namespace of its own a container would see the host's whole hierarchy of version 2 where it looks for its own group.
	if security := start.Container.SecurityContext; r.groups.Unified() && (security == nil || security.Privileged == nil || !*security.Privileged) {
		list = append(list, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return list
}

func resources(c *v1.Container, privileged bool) *specs.LinuxResources {
	l := limits(c)
	res := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: privileged, Access: "rwm"}}, CPU: &specs.LinuxCPU{Shares: &l.CPUShares}}
	if l.CPUQuota > 0 {
		period := uint64(quotaPerCPU)
		res.CPU.Quota, res.CPU.Period = &l.CPUQuota, &period
	}
	if l.Memory > 0 {
		res.Memory = &specs.LinuxMemory{Limit: &l.Memory}
	}
	return res
}

// mounts are the kernel's file systems, the pod's files and volumes, and the container's termination log.
func (r *Runtime) mounts(c *ctr, start container.Start) ([]specs.Mount, error) {
	dir := r.podDir(start.Pod.UID)
	bind := func(from, to string, options ...string) specs.Mount {
		return specs.Mount{Destination: to, Source: from, Type: "bind", Options: append([]string{"rbind"}, options...)}
	}
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
		bind(r.sharedMemory(start.Pod), "/dev/shm"),
		bind(filepath.Join(dir, hostsFile), "/etc/hosts"),
		bind(filepath.Join(dir, resolvFile), "/etc/resolv.conf"),
		bind(filepath.Join(dir, hostnameFile), "/etc/hostname"),
	}
	if start.Pod.Spec.HostNetwork { // sysfs shows the network namespace of who mounts it, which must own it
		list[4] = bind("/sys", "/sys", "nosuid", "noexec", "nodev", "ro")
	}
	for _, m := range start.Container.VolumeMounts {
		from, err := r.volumePath(start.Pod, m.Name)
		if err != nil {
			return nil, err
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		list = append(list, bind(from, m.MountPath, mode))
	}
	if path := start.Container.TerminationMessagePath; path != "" {
		log := filepath.Join(c.dir, lastWordsOf)
		f, err := os.OpenFile(log, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err != nil {
			return nil, err
		}
		f.Close()
		if err := os.Chmod(log, 0o666); err != nil { // whatever the umask says
			return nil, err
		}
		r.mu.Lock()
		c.rec.TerminationLog = log
		r.mu.Unlock()
		list = append(list, bind(log, path))
	}
	return list, nil
}

// maskedPaths and readonlyPaths are what containers are not shown, as in the defaults of all runtimes.
func maskedPaths() []string {
	return []string{"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
		"/proc/sched_debug", "/proc/scsi", "/sys/firmware"}
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// defaultCapabilities are those of all runtimes.
func defaultCapabilities() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP", "NET_BIND_SERVICE",
		"SYS_CHROOT", "KILL", "AUDIT_WRITE"}
}

// capabilities are the container's: the default ones, with those added and without those dropped. Nobody gets one that this
// process can't give.
func capabilities(s *v1.SecurityContext, privileged bool) (*specs.LinuxCapabilities, error) {
	bound, err := boundingSet()
	if err != nil {
		return nil, err
	}
	var list []string
	add := func(name string) {
		if c := "CAP_" + strings.TrimPrefix(strings.ToUpper(name), "CAP_"); slices.Contains(bound, c) && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	all := func(names []v1.Capability) bool { return slices.Contains(names, "ALL") }
	switch c := s.Capabilities; {
	case privileged:
		list = bound
	case c == nil:
		for _, name := range defaultCapabilities() {
			add(name)
		}
	default:
		if all(c.Add) {
			list = slices.Clone(bound)
		} else if !all(c.Drop) {
			for _, name := range defaultCapabilities() {
				add(name)
			}
		}
		for _, name := range c.Drop {
			list = slices.DeleteFunc(list, func(have string) bool {
				return have == "CAP_"+strings.TrimPrefix(strings.ToUpper(string(name)), "CAP_")
			})
		}
		for _, name := range c.Add {
			add(string(name))
		}
	}
	return &specs.LinuxCapabilities{Bounding: list, Effective: list, Permitted: list}, nil
}

// containerUser is the user of a container: the container's, else the pod's, else the image's.
func containerUser(start container.Start, img *images.Image, rootfs string) (specs.User, error) {
	pod, own := start.Pod.Spec.SecurityContext, start.Container.SecurityContext
	if pod == nil {
		pod = &v1.PodSecurityContext{}
	}
	if own == nil {
		own = &v1.SecurityContext{}
	}
	user, err := lookUpUser(rootfs, img.User)
	if err != nil {
		return user, err
	}
	if uid := cmp.Or(own.RunAsUser, pod.RunAsUser); uid != nil {
		user.UID = uint32(*uid)
		if img.User == "" {
			user.GID = 0
		}
	}
	if gid := cmp.Or(own.RunAsGroup, pod.RunAsGroup); gid != nil {
		user.GID = uint32(*gid)
	}
	for _, g := range pod.SupplementalGroups {
		user.AdditionalGids = append(user.AdditionalGids, uint32(g))
	}
	if pod.FSGroup != nil {
		user.AdditionalGids = append(user.AdditionalGids, uint32(*pod.FSGroup))
	}
	if nonRoot := cmp.Or(own.RunAsNonRoot, pod.RunAsNonRoot); nonRoot != nil && *nonRoot && user.UID == 0 {
		return user, errors.New("runAsNonRoot is set, and it would run as root")
	}
	return user, nil
}

// lookUpUser finds the user that an image names, as user[:group] with names or numbers, in the image's own files.
func lookUpUser(rootfs, text string) (specs.User, error) {
	var user specs.User
	name, group, grouped := strings.Cut(text, ":")
	if name != "" {
		line, err := lookUp(rootfs, "etc/passwd", name)
		if err != nil {
			return user, err
		}
		uid, err := strconv.ParseUint(cmp.Or(field(line, 2), name), 10, 32)
		if err != nil {
			return user, fmt.Errorf("no user %q in the image", name)
		}
		user.UID = uint32(uid)
		if gid, err := strconv.ParseUint(field(line, 3), 10, 32); err == nil {
			user.GID = uint32(gid)
		}
	}
	if grouped {
		line, err := lookUp(rootfs, "etc/group", group)
		if err != nil {
			return user, err
		}
		gid, err := strconv.ParseUint(cmp.Or(field(line, 2), group), 10, 32)
		if err != nil {
			return user, fmt.Errorf("no group %q in the image", group)
		}
		user.GID = uint32(gid)
	}
	return user, nil
}

// lookUp finds the line of a name or number in passwd or group of an image; nil if there is none. The file is never one outside of
// the image, whatever its links say.
func lookUp(rootfs, file, name string) ([]string, error) {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 1 << 20
	lines := bufio.NewScanner(io.LimitReader(f, most))
	for lines.Scan() {
		if l := strings.Split(lines.Text(), ":"); l[0] == name || field(l, 2) == name {
			return l, nil
		}
	}
	return nil, lines.Err()
}

func field(line []string, i int) string {
	if i < len(line) {
		return line[i]
	}
	return ""
}
