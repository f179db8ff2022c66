package manifest

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Validate refuses what the API server would refuse, of the fields that the agent implements; and a UID, which names folders, that is
// more than letters, digits, hyphens, dots and underscores, or has two dots side by side. It is for a pod that has its defaults. The error holds a [Fault] of each.
func Validate(pod *v1.Pod) error { return join(validate(pod)) }

func validate(pod *v1.Pod) []*Fault {
	c := &checker{pod: pod}
	c.meta()
	c.spec()
	c.volumes()
	if len(pod.Spec.Containers) == 0 {
		c.add("spec.containers", "there is none")
	}
	c.containers()
	return c.faults
}

// checker collects what is wrong with a pod.
type checker struct {
	pod    *v1.Pod
	faults []*Fault
}

func (c *checker) add(path, format string, args ...any) {
	c.faults = append(c.faults, &Fault{Field: path, Reason: fmt.Sprintf(format, args...)})
}

// all adds the reasons that a function of the validation package gave.
func (c *checker) all(path, value string, reasons []string) {
	for _, r := range reasons {
		if len(value) > 80 {
			value = value[:80] + "…"
		}
		c.add(path, "%q: %s", value, r)
	}
}

// oneOf wants one of a few values.
func oneOf[T ~string](c *checker, path string, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		c.add(path, "%q is none of %q", value, allowed)
	}
}

// between wants a number in a range.
func (c *checker) between(path string, n, low, high int64) {
	if n < low || n > high {
		c.add(path, "%d is not in %d to %d", n, low, high)
	}
}

const (
	// maxFileName is how long a file's name may be (NAME_MAX).
	maxFileName = 255

	maxSeconds = 1<<31 - 1
	maxID      = 1<<31 - 1
)

func (c *checker) meta() {
	m := &c.pod.ObjectMeta
	if strings.HasPrefix(m.Name, "-") { // the node's name is behind it already
		c.add("metadata.name", "there is none")
	} else {
		c.all("metadata.name", m.Name, validation.IsDNS1123Subdomain(m.Name))
	}
	c.all("metadata.namespace", m.Namespace, validation.IsDNS1123Label(m.Namespace))
	if !isUID(string(m.UID)) {
		c.add("metadata.uid", "%.80q is no UID: want up to 128 letters, digits, hyphens, dots and underscores", m.UID)
	}
	if n := len(m.Namespace) + len(m.Name) + len(m.UID) + len("__"); n > maxFileName && len(m.Name) <= validation.DNS1123SubdomainMaxLength {
		c.add("metadata.name", "with the namespace and the UID it has %d bytes, and the folder of the logs can have %d", n, maxFileName)
	}
	for _, k := range sortedKeys(m.Labels) {
		c.all(key("metadata.labels", k), k, validation.IsQualifiedName(k))
		c.all(key("metadata.labels", k), m.Labels[k], validation.IsValidLabelValue(m.Labels[k]))
	}
	size := 0
	for _, k := range sortedKeys(m.Annotations) {
		c.all(key("metadata.annotations", k), k, validation.IsQualifiedName(strings.ToLower(k)))
		size += len(k) + len(m.Annotations[k])
	}
	if size > 256<<10 {
		c.add("metadata.annotations", "they have %d bytes, and 262144 are allowed", size)
	}
	if p := m.DeletionGracePeriodSeconds; p != nil {
		c.between("metadata.deletionGracePeriodSeconds", *p, 0, maxSeconds)
	}
}

// isUID wants up to 128 letters, digits, hyphens, dots and underscores, the first a letter or digit: it is the name of folders.
func isUID(s string) bool {
	return len(s) <= 128 && startsAlnum(s) && !strings.Contains(s, "..") && !strings.ContainsFunc(s, func(r rune) bool { return !isAlnum(r) && !strings.ContainsRune("-._", r) })
}

func isAlnum(r rune) bool { return isLetter(r) || r >= '0' && r <= '9' }

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func startsAlnum(s string) bool { return s != "" && isAlnum(rune(s[0])) }

// isSysctl wants two parts at least with dots or slashes between them, so that the path has no step upwards.
func isSysctl(s string) bool {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '/' })
	if len(parts) < 2 || len(strings.Join(parts, ".")) != len(s) {
		return false
	}
	return !slices.ContainsFunc(parts, func(p string) bool {
		return !startsAlnum(p) || strings.ToLower(p) != p || strings.ContainsFunc(p, func(r rune) bool { return !isAlnum(r) && r != '-' && r != '_' })
	})
}

func (c *checker) spec() {
	s := &c.pod.Spec
	oneOf(c, "spec.restartPolicy", s.RestartPolicy, v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	if p := s.TerminationGracePeriodSeconds; p != nil {
		c.between("spec.terminationGracePeriodSeconds", *p, 0, maxSeconds)
	}
	if s.Hostname != "" {
		c.all("spec.hostname", s.Hostname, validation.IsDNS1123Label(s.Hostname))
	}
	if p := s.ShareProcessNamespace; p != nil && *p && s.HostPID {
		c.add("spec.shareProcessNamespace", "can't be together with hostPID")
	}
	for i, a := range s.HostAliases {
		at := item("spec.hostAliases", i)
		c.address(at+".ip", a.IP)
		for j, h := range a.Hostnames {
			c.all(item(at+".hostnames", j), h, validation.IsDNS1123Subdomain(h))
		}
	}
	c.dns()
	if sc := s.SecurityContext; sc != nil {
		c.identity("spec.securityContext", sc.RunAsUser, sc.RunAsGroup)
		c.identity("spec.securityContext", nil, sc.FSGroup)
		for i, g := range sc.SupplementalGroups {
			c.between(item("spec.securityContext.supplementalGroups", i), g, 0, maxID)
		}
		c.sysctls(sc.Sysctls)
	}
}

// identity checks IDs of a user and a group.
func (c *checker) identity(path string, user, group *int64) {
	if user != nil {
		c.between(path+".runAsUser", *user, 0, maxID)
	}
	if group != nil {
		c.between(path+".runAsGroup", *group, 0, maxID)
	}
}

func (c *checker) address(path, text string) {
	if _, err := netip.ParseAddr(text); err != nil {
		c.add(path, "%q is no IP address", text)
	}
}

func (c *checker) dns() {
	s := &c.pod.Spec
	oneOf(c, "spec.dnsPolicy", s.DNSPolicy, v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone)
	d := s.DNSConfig
	if s.DNSPolicy == v1.DNSNone && (d == nil || len(d.Nameservers) == 0) {
		c.add("spec.dnsConfig.nameservers", "dnsPolicy None wants one at least")
	}
	if d == nil {
		return
	}
	if len(d.Nameservers) > 3 {
		c.add("spec.dnsConfig.nameservers", "there are %d, and resolvers use 3", len(d.Nameservers))
	}
	for i, n := range d.Nameservers {
		c.address(item("spec.dnsConfig.nameservers", i), n)
	}
	size := 0
	for i, domain := range d.Searches {
		size += len(domain) + 1
		if trimmed := strings.TrimSuffix(domain, "."); domain != "." {
			c.all(item("spec.dnsConfig.searches", i), domain, validation.IsDNS1123SubdomainWithUnderscore(trimmed))
		}
	}
	if len(d.Searches) > 32 || size > 2049 {
		c.add("spec.dnsConfig.searches", "there are %d of %d letters, and 32 of 2048 are allowed", len(d.Searches), size)
	}
	for i, o := range d.Options {
		at := item("spec.dnsConfig.options", i)
		c.word(at+".name", o.Name)
		if o.Value != nil && *o.Value != "" {
			c.word(at+".value", *o.Value)
		}
	}
}

// word wants text that can stand in a line of resolv.conf.
func (c *checker) word(path, text string) {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		c.add(path, "%q is empty or has a space or control character", text)
	}
}

// sysctls wants names of namespaces that the pod has of its own.
func (c *checker) sysctls(list []v1.Sysctl) {
	seen := map[string]bool{}
	for i, s := range list {
		at := item("spec.securityContext.sysctls", i) + ".name"
		name := strings.ReplaceAll(s.Name, "/", ".")
		ipc := strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") || name == "kernel.sem" || strings.HasPrefix(name, "fs.mqueue.")
		switch {
		case !isSysctl(s.Name):
			c.add(at, "%q is no sysctl", s.Name)
		case seen[name]:
			c.add(at, "%s stands twice", s.Name)
		case !ipc && !strings.HasPrefix(name, "net."):
			c.add(at, "%s is of the whole host", s.Name)
		case ipc && c.pod.Spec.HostIPC:
			c.add(at, "%s is the host's with hostIPC", s.Name)
		case !ipc && c.pod.Spec.HostNetwork:
			c.add(at, "%s is the host's with hostNetwork", s.Name)
		}
		seen[name] = true
	}
}

func (c *checker) volumes() {
	seen := map[string]bool{}
	for i, v := range c.pod.Spec.Volumes {
		at := item("spec.volumes", i)
		c.all(at+".name", v.Name, validation.IsDNS1123Label(v.Name))
		if seen[v.Name] {
			c.add(at+".name", "%s stands twice", v.Name)
		}
		seen[v.Name] = true
		if v.EmptyDir != nil && v.HostPath != nil {
			c.add(at, "is both emptyDir and hostPath")
		}
		if e := v.EmptyDir; e != nil && e.SizeLimit != nil {
			c.positive(at+".emptyDir.sizeLimit", *e.SizeLimit)
		}
		if h := v.HostPath; h != nil {
			c.path(at+".hostPath.path", h.Path)
			if h.Type == nil {
				continue
			}
			oneOf(c, at+".hostPath.type", *h.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory, v1.HostPathFileOrCreate,
				v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)
		}
	}
}

// path wants an absolute path without steps upwards.
func (c *checker) path(at, p string) {
	switch {
	case !path.IsAbs(p):
		c.add(at, "%q is not absolute", p)
	case slices.Contains(strings.Split(p, "/"), ".."):
		c.add(at, "%q has a step upwards", p)
	case strings.ContainsRune(p, 0):
		c.add(at, "%q has a zero byte", p)
	}
}

func (c *checker) positive(path string, q resource.Quantity) {
	if q.Sign() < 0 {
		c.add(path, "%s is negative", q.String())
	}
}
