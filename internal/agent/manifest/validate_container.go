package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (c *checker) containers() {
	seen := map[string]bool{}
	hostPorts := map[string]string{}
	for path, ctr := range containers(c.pod) {
		c.all(path+".name", ctr.Name, validation.IsDNS1123Label(ctr.Name))
		if seen[ctr.Name] {
			c.add(path+".name", "%s stands twice", ctr.Name)
		}
		seen[ctr.Name] = true
		c.image(path, ctr)
		c.ports(path, ctr, hostPorts)
		c.env(path, ctr)
		c.resources(path, ctr)
		c.mounts(path, ctr)
		c.container(path, ctr)
		plainInit := strings.HasPrefix(path, "spec.initContainers") && ctr.RestartPolicy == nil
		c.probes(path, ctr, plainInit)
		c.hooks(path, ctr, plainInit)
	}
}

// image wants an image or a command: without an image, the command is one of the host.
func (c *checker) image(path string, ctr *v1.Container) {
	if ctr.Image == "" {
		if len(ctr.Command) == 0 {
			c.add(path, "has neither image nor command")
		}
		if ctr.ImagePullPolicy != "" {
			c.add(path+".imagePullPolicy", "there is no image")
		}
		return
	}
	if strings.TrimSpace(ctr.Image) != ctr.Image || strings.ContainsAny(ctr.Image, "\n\t ") {
		c.add(path+".image", "%q has spaces", ctr.Image)
	}
	oneOf(c, path+".imagePullPolicy", ctr.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
}

func (c *checker) ports(path string, ctr *v1.Container, hostPorts map[string]string) {
	names := map[string]bool{}
	for i, p := range ctr.Ports {
		at := item(path+".ports", i)
		if p.Name != "" {
			c.all(at+".name", p.Name, validation.IsValidPortName(p.Name))
			if names[p.Name] {
				c.add(at+".name", "%s stands twice", p.Name)
			}
			names[p.Name] = true
		}
		oneOf(c, at+".protocol", p.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
		c.between(at+".containerPort", int64(p.ContainerPort), 1, 65535)
		if p.HostIP != "" {
			c.address(at+".hostIP", p.HostIP)
		}
		if p.HostPort == 0 {
			continue
		}
		c.between(at+".hostPort", int64(p.HostPort), 1, 65535)
		if c.pod.Spec.HostNetwork && p.HostPort != p.ContainerPort {
			c.add(at+".hostPort", "is not containerPort, which it is with hostNetwork")
		}
		ip := p.HostIP
		if addr, err := netip.ParseAddr(ip); err == nil {
			ip = addr.String()
		}
		id := fmt.Sprintf("%s/%s/%d", p.Protocol, ip, p.HostPort)
		if first, ok := hostPorts[id]; ok {
			c.add(at+".hostPort", "%d is also that of %s", p.HostPort, first)
			continue
		}
		hostPorts[id] = at
	}
}

func (c *checker) env(path string, ctr *v1.Container) {
	for i, e := range ctr.Env {
		at := item(path+".env", i)
		c.all(at+".name", e.Name, validation.IsRelaxedEnvVarName(e.Name))
		if strings.ContainsRune(e.Value, 0) {
			c.add(at+".value", "has a zero byte")
		}
		from := e.ValueFrom
		if from == nil {
			continue
		}
		at += ".valueFrom"
		switch {
		case e.Value != "":
			c.add(at, "there is a value too")
		case from.FieldRef != nil && from.ResourceFieldRef != nil:
			c.add(at, "has both fieldRef and resourceFieldRef")
		case from.FieldRef != nil:
			c.fieldRef(at+".fieldRef", from.FieldRef)
		case from.ResourceFieldRef != nil:
			c.resourceFieldRef(at+".resourceFieldRef", from.ResourceFieldRef)
		default:
			c.add(at, "says not from where")
		}
	}
}

// FieldRefs returns the paths that a variable's fieldRef may name; the two of labels and annotations stand for metadata.labels['key'].
func FieldRefs() []string {
	return []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations", "spec.nodeName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
}

func (c *checker) fieldRef(path string, ref *v1.ObjectFieldSelector) {
	if ref.APIVersion != "v1" {
		c.add(path+".apiVersion", "%q is not v1", ref.APIVersion)
	}
	field, name, subscript := strings.Cut(ref.FieldPath, "['")
	if subscript {
		name, subscript = strings.CutSuffix(name, "']")
		c.all(path+".fieldPath", name, validation.IsQualifiedName(strings.ToLower(name)))
	}
	wants := field == "metadata.labels" || field == "metadata.annotations"
	switch {
	case !slices.Contains(FieldRefs(), field), field != ref.FieldPath && !(wants && subscript):
		c.add(path+".fieldPath", "the agent does not implement %q, only %s", ref.FieldPath, strings.Join(FieldRefs(), ", "))
	case wants && !subscript:
		c.add(path+".fieldPath", "a variable takes one of them: %s['key']", field)
	}
}

func (c *checker) resourceFieldRef(path string, ref *v1.ResourceFieldSelector) {
	oneOf(c, path+".resource", ref.Resource, "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
	if ref.ContainerName != "" {
		found := false
		for _, ctr := range containers(c.pod) {
			found = found || ctr.Name == ref.ContainerName
		}
		if !found {
			c.add(path+".containerName", "there is no container %q", ref.ContainerName)
		}
	}
	if !ref.Divisor.IsZero() {
		allowed := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
		if strings.HasSuffix(ref.Resource, ".cpu") {
			allowed = []string{"1", "1m"}
		}
		oneOf(c, path+".divisor", ref.Divisor.String(), allowed...)
	}
}

// minMemory is the least that a container can be limited to, in bytes: runc itself needs 2 to 3 MiB in there to start it.
const minMemory = 4 << 20

func (c *checker) resources(path string, ctr *v1.Container) {
	for _, name := range sortedKeys(ctr.Resources.Limits) {
		at, limit := key(path+".resources.limits", string(name)), ctr.Resources.Limits[name]
		c.positive(at, limit)
		if name == v1.ResourceMemory && limit.Sign() > 0 && limit.Value() < minMemory {
			c.add(at, "%s is less than the %d bytes without which no container starts; a limit has a unit, such as 64Mi", limit.String(), minMemory)
		}
	}
	for _, name := range sortedKeys(ctr.Resources.Requests) {
		request := ctr.Resources.Requests[name]
		at := key(path+".resources.requests", string(name))
		c.positive(at, request)
		if limit, ok := ctr.Resources.Limits[name]; ok && request.Cmp(limit) > 0 {
			c.add(at, "%s is more than the limit %s", request.String(), limit.String())
		}
	}
}

func (c *checker) mounts(path string, ctr *v1.Container) {
	seen := map[string]bool{}
	for i, m := range ctr.VolumeMounts {
		at := item(path+".volumeMounts", i)
		if !slices.ContainsFunc(c.pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name }) {
			c.add(at+".name", "there is no volume %q", m.Name)
		}
		c.path(at+".mountPath", m.MountPath)
		if seen[m.MountPath] {
			c.add(at+".mountPath", "%s stands twice", m.MountPath)
		}
		seen[m.MountPath] = true
	}
}

// container checks the fields that stand for themselves.
func (c *checker) container(path string, ctr *v1.Container) {
	if ctr.WorkingDir != "" {
		c.path(path+".workingDir", ctr.WorkingDir)
	}
	for _, list := range []struct {
		name string
		of   []string
	}{{"command", ctr.Command}, {"args", ctr.Args}} {
		for i, s := range list.of {
			if strings.ContainsRune(s, 0) {
				c.add(item(path+"."+list.name, i), "has a zero byte")
			}
		}
	}
	c.path(path+".terminationMessagePath", ctr.TerminationMessagePath)
	oneOf(c, path+".terminationMessagePolicy", ctr.TerminationMessagePolicy, v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
	sc := ctr.SecurityContext
	if sc == nil {
		return
	}
	at := path + ".securityContext"
	c.identity(at, sc.RunAsUser, sc.RunAsGroup)
	privileged := sc.Privileged != nil && *sc.Privileged
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation && privileged {
		c.add(at+".allowPrivilegeEscalation", "can't be false with privileged")
	}
	if sc.Capabilities != nil {
		for i, name := range sc.Capabilities.Add {
			c.capability(item(at+".capabilities.add", i), string(name))
		}
		for i, name := range sc.Capabilities.Drop {
			c.capability(item(at+".capabilities.drop", i), string(name))
		}
	}
}

// capability wants the form of a capability's name; which ones there are, the kernel knows.
func (c *checker) capability(path, name string) {
	bare := strings.TrimPrefix(name, "CAP_")
	if bare == "" || len(bare) > 40 || strings.ContainsFunc(bare, func(r rune) bool { return !isLetter(r) && r != '_' }) {
		c.add(path, "%q is no capability", name)
	}
}
