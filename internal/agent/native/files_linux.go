package native

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/mountinfo"
	"github.com/cleat-cni/cleat/internal/atomicfile"
)

// The files of a pod in <root>/pods/<uid>, which its containers get as files of /etc.
const (
	hostsFile    = "etc-hosts"
	resolvFile   = "resolv.conf"
	hostnameFile = "hostname"
	volumesDir   = "volumes"
	shmDir       = "shm" // the /dev/shm of all containers of the pod
)

func (r *Runtime) podDir(uid types.UID) string { return r.path("pods", string(uid)) }

// logDir is where the logs of a pod's containers are, by the kubelet's scheme.
func (r *Runtime) logDir(pod *v1.Pod) string {
	return r.path("logs", pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// makePodFiles makes a pod's folder with what doesn't depend on its addresses. What is there stays: volumes outlive a sandbox.
func (r *Runtime) makePodFiles(pod *v1.Pod) error {
	dir := r.podDir(pod.UID)
	if err := r.keepPod(podRecord{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, volumesDir), 0o755); err != nil {
		return fmt.Errorf("make the pod's folder: %w", err)
	}
	node, err := os.ReadFile(r.cfg.ResolvConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's resolv.conf: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, resolvFile), []byte(r.resolvConf(pod, string(node))), 0o644); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, hostnameFile), []byte(hostname(pod)+"\n"), 0o644); err != nil {
		return err
	}
	if err := r.makeSharedMemory(pod); err != nil {
		return err
	}
	for i := range pod.Spec.Volumes {
		if err := r.makeVolume(pod, &pod.Spec.Volumes[i]); err != nil {
			return err
		}
	}
	if pod.Spec.HostNetwork {
		return r.writeHosts(pod, nil)
	}
	return nil
}

// sharedMemory is the folder that the containers of a pod have as /dev/shm.
func (r *Runtime) sharedMemory(pod *v1.Pod) string {
	if pod.Spec.HostIPC {
		return "/dev/shm"
	}
	return filepath.Join(r.podDir(pod.UID), shmDir)
}

// makeSharedMemory mounts it, of the size that all runtimes give. A pod of host commands needs none.
func (r *Runtime) makeSharedMemory(pod *v1.Pod) error {
	images := func(list []v1.Container) bool {
		return slices.ContainsFunc(list, func(c v1.Container) bool { return c.Image != "" })
	}
	if pod.Spec.HostIPC || !images(pod.Spec.InitContainers) && !images(pod.Spec.Containers) {
		return nil
	}
	if err := mountMemory(r.sharedMemory(pod), unix.MS_NOEXEC, "mode=1777,size=65536k"); err != nil {
		return fmt.Errorf("make the pod's /dev/shm: %w", err)
	}
	return nil
}

// mountMemory mounts a tmpfs at dir, unless one is there already: after a boot the folder is, and the mount is not.
func mountMemory(dir string, flags uintptr, options string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var here, above unix.Stat_t
	if err := errors.Join(unix.Lstat(dir, &here), unix.Lstat(filepath.Dir(dir), &above)); err != nil {
		return err
	}
	if here.Dev != above.Dev {
		return nil
	}
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID|flags, options)
}

// resolvConf is the pod's resolv.conf (resolv.conf(5)).
func (r *Runtime) resolvConf(pod *v1.Pod, node string) string {
	var servers, search, options []string
	switch policy := pod.Spec.DNSPolicy; {
	case policy == v1.DNSNone:
	case len(r.cfg.ClusterDNS) > 0 && (policy == v1.DNSClusterFirstWithHostNet || policy == v1.DNSClusterFirst && !pod.Spec.HostNetwork):
		for _, a := range r.cfg.ClusterDNS {
			servers = append(servers, a.String())
		}
		domain := r.cfg.ClusterDomain
		_, search, _ = parseResolvConf(node)
		search = append([]string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}, search...)
		options = []string{"ndots:5"}
	default:
		servers, search, options = parseResolvConf(node)
	}
	if d := pod.Spec.DNSConfig; d != nil {
		servers = appendNew(servers, d.Nameservers...)
		search = appendNew(search, d.Searches...)
		options = appendOptions(options, dnsOptions(d))
	}
	var text strings.Builder
	if len(search) > 0 {
		fmt.Fprintf(&text, "search %s\n", strings.Join(search, " "))
	}
	for _, s := range servers {
		fmt.Fprintf(&text, "nameserver %s\n", s)
	}
	if len(options) > 0 {
		fmt.Fprintf(&text, "options %s\n", strings.Join(options, " "))
	}
	return text.String()
}

func parseResolvConf(text string) (servers, search, options []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], ";") {
			continue
		}
		switch f[0] {
		case "nameserver":
			servers = append(servers, f[1])
		case "search", "domain": // the last of them counts
			search = slices.Clone(f[1:])
		case "options":
			options = append(options, f[1:]...)
		}
	}
	return servers, search, options
}

func appendNew(list []string, more ...string) []string {
	for _, m := range more {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// appendOptions adds options, which take the place of those of the same name.
func appendOptions(list, more []string) []string {
	name := func(o string) string { n, _, _ := strings.Cut(o, ":"); return n }
	for _, m := range more {
		list = slices.DeleteFunc(list, func(o string) bool { return name(o) == name(m) })
		list = append(list, m)
	}
	return list
}

// writeHosts writes the pod's /etc/hosts (hosts(5)): its own name at its addresses; with the host's network it begins as the host's.
func (r *Runtime) writeHosts(pod *v1.Pod, ips []netip.Addr) error {
	var text strings.Builder
	if pod.Spec.HostNetwork {
		host, err := os.ReadFile("/etc/hosts")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the node's hosts: %w", err)
		}
		text.Write(host)
	} else {
		text.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		for _, ip := range ips {
			fmt.Fprintf(&text, "%s\t%s\n", ip, hostname(pod))
		}
	}
	for _, a := range pod.Spec.HostAliases {
		fmt.Fprintf(&text, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return atomicfile.Write(filepath.Join(r.podDir(pod.UID), hostsFile), []byte(text.String()), 0o644)
}

// volumePath is where a volume's files are on the host.
func (r *Runtime) volumePath(pod *v1.Pod, name string) (string, error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.Name != name:
		case v.HostPath != nil:
			return v.HostPath.Path, nil
		default:
			return filepath.Join(r.podDir(pod.UID), volumesDir, name), nil
		}
	}
	return "", fmt.Errorf("no volume %q in the pod", name)
}

// makeVolume makes the folder of an emptyDir, or what the type of a hostPath asks for.
func (r *Runtime) makeVolume(pod *v1.Pod, v *v1.Volume) error {
	if v.HostPath != nil {
		if err := checkHostPath(v.HostPath); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		return nil
	}
	if err := makeEmptyDir(filepath.Join(r.podDir(pod.UID), volumesDir, v.Name), v.EmptyDir, pod.Spec.SecurityContext); err != nil {
		return fmt.Errorf("volume %s: %w", v.Name, err)
	}
	return nil
}

// makeEmptyDir makes the folder of an emptyDir, in memory if it asks for that. One that is there keeps what is in it.
func makeEmptyDir(dir string, e *v1.EmptyDirVolumeSource, security *v1.PodSecurityContext) error {
	if e != nil && e.Medium == v1.StorageMediumMemory {
		options := "mode=1777"
		if l := e.SizeLimit; l != nil && l.Sign() > 0 {
			options += fmt.Sprintf(",size=%d", l.Value())
		}
		if err := mountMemory(dir, 0, options); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if security == nil || security.FSGroup == nil {
		return os.Chmod(dir, 0o777) // whatever the umask says
	}
	if err := os.Chown(dir, -1, int(*security.FSGroup)); err != nil {
		return err
	}
	return unix.Chmod(dir, unix.S_ISGID|0o775)
}

// checkHostPath holds a host's path to the type that the volume says, and makes it where the type says OrCreate.
func checkHostPath(h *v1.HostPathVolumeSource) error {
	kind := v1.HostPathUnset
	if h.Type != nil {
		kind = *h.Type
	}
	info, err := os.Stat(h.Path)
	switch {
	case kind == v1.HostPathUnset:
		return nil
	case errors.Is(err, fs.ErrNotExist) && kind == v1.HostPathDirectoryOrCreate:
		return os.MkdirAll(h.Path, 0o755)
	case errors.Is(err, fs.ErrNotExist) && kind == v1.HostPathFileOrCreate:
		f, err := os.OpenFile(h.Path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	case err != nil:
		return err
	}
	mode := info.Mode()
	fits := map[v1.HostPathType]bool{
		v1.HostPathDirectory: mode.IsDir(), v1.HostPathDirectoryOrCreate: mode.IsDir(),
		v1.HostPathFile: mode.IsRegular(), v1.HostPathFileOrCreate: mode.IsRegular(),
		v1.HostPathSocket: mode&fs.ModeSocket != 0, v1.HostPathCharDev: mode&fs.ModeCharDevice != 0,
		v1.HostPathBlockDev: mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0,
	}
	if !fits[kind] {
		return fmt.Errorf("%s is no %s", h.Path, kind)
	}
	return nil
}

// removePodFiles removes a pod's folder with its volumes. Whatever is mounted in it, at whatever depth, is unmounted first, and nothing is
// removed while something is: so nothing of a host's path ever is.
func (r *Runtime) removePodFiles(uid types.UID) error {
	if uid == "" || filepath.Base(string(uid)) != string(uid) {
		return fmt.Errorf("remove the files of pod %q: not a UID", uid)
	}
	dir, err := filepath.EvalSymlinks(r.podDir(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mounts, err := mountinfo.Read()
	if err != nil {
		return err
	}
	for _, m := range mountinfo.Below(mounts, dir) {
		if err := unix.Unmount(m, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	if mounts, err = mountinfo.Read(); err != nil {
		return err
	}
	if left := mountinfo.Below(mounts, dir); len(left) > 0 {
		return fmt.Errorf("remove the files of pod %s: %s is mounted", uid, left[0])
	}
	return os.RemoveAll(r.podDir(uid))
}
