package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// EnvInput is what a container's environment is made from.
type EnvInput struct {
	Pod         *v1.Pod
	Container   *v1.Container
	IPs         []netip.Addr    // of the pod
	HostIPs     []netip.Addr    // of the node
	Allocatable v1.ResourceList // of the node: what a container without a limit may use
}

// Env returns the environment of a container in the order of the spec, with $(VAR) and the downward API resolved. Of two
// variables of a name the second stays. Values that come from config maps, secrets and files are an error.
func Env(in EnvInput) ([]container.EnvVar, error) {
	var list []container.EnvVar
	for i, e := range in.Container.Env {
		value, err := in.value(e, list)
		if err != nil {
			return nil, fmt.Errorf("resolve env[%d] %s of container %s: %w", i, e.Name, in.Container.Name, err)
		}
		list = slices.DeleteFunc(list, func(v container.EnvVar) bool { return v.Name == e.Name })
		list = append(list, container.EnvVar{Name: e.Name, Value: value})
	}
	return list, nil
}

func (in EnvInput) value(e v1.EnvVar, before []container.EnvVar) (string, error) {
	switch from := e.ValueFrom; {
	case from == nil:
		return Expand(e.Value, before), nil
	case from.FieldRef != nil:
		return in.field(from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return in.resource(from.ResourceFieldRef)
	}
	return "", fmt.Errorf("valueFrom is neither a fieldRef nor a resourceFieldRef")
}

// field returns the value of a field of the downward API, "Available fields" of the Kubernetes documentation.
func (in EnvInput) field(path string) (string, error) {
	if name, key, ok := strings.Cut(strings.TrimSuffix(path, "']"), "['"); ok {
		switch name {
		case "metadata.labels":
			return in.Pod.Labels[key], nil
		case "metadata.annotations":
			return in.Pod.Annotations[key], nil
		}
	}
	ips := in.IPs
	if in.Pod.Spec.HostNetwork {
		ips = in.HostIPs
	}
	switch path {
	case "metadata.name":
		return in.Pod.Name, nil
	case "metadata.namespace":
		return in.Pod.Namespace, nil
	case "metadata.uid":
		return string(in.Pod.UID), nil
	case "spec.nodeName":
		return in.Pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return in.Pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return first(ips), nil
	case "status.podIPs":
		return joined(ips), nil
	case "status.hostIP":
		return first(in.HostIPs), nil
	case "status.hostIPs":
		return joined(in.HostIPs), nil
	}
	return "", fmt.Errorf("fieldRef %s: no such field", path)
}

func first(ips []netip.Addr) string {
	if len(ips) == 0 {
		return ""
	}
	return ips[0].String()
}

func joined(ips []netip.Addr) string {
	var list []string
	for _, ip := range ips {
		list = append(list, ip.String())
	}
	return strings.Join(list, ",")
}

// resource returns a limit or request of a container in units of the divisor, rounded up. Without a limit it is what the node has,
// without a request the limit's value.
func (in EnvInput) resource(ref *v1.ResourceFieldSelector) (string, error) {
	c := in.Container
	if ref.ContainerName != "" {
		if c, _ = Container(in.Pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("resourceFieldRef: no container %s", ref.ContainerName)
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	if kind != "limits" && kind != "requests" {
		return "", fmt.Errorf("resourceFieldRef %s: neither limits nor requests", ref.Resource)
	}
	q, ok := c.Resources.Requests[v1.ResourceName(name)]
	if kind == "limits" || !ok {
		q, ok = c.Resources.Limits[v1.ResourceName(name)]
	}
	if !ok && kind == "limits" {
		q = in.Allocatable[v1.ResourceName(name)]
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(v1.ResourceCPU) {
		return ceil(q.MilliValue(), divisor.MilliValue()), nil
	}
	return ceil(q.Value(), divisor.Value()), nil
}

func ceil(value, divisor int64) string {
	n := value / divisor
	if value%divisor > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}

// Expand replaces $(NAME) by the value of a variable. A name that is not known stays as it is, and $$ is a dollar sign.
func Expand(text string, vars []container.EnvVar) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i])
		text = text[i:]
		end := strings.IndexByte(text, ')')
		switch {
		case text[1] == '$':
			b.WriteByte('$')
			text = text[2:]
		case text[1] == '(' && end > 0:
			if v := slices.IndexFunc(vars, func(v container.EnvVar) bool { return v.Name == text[2:end] }); v >= 0 {
				b.WriteString(vars[v].Value)
			} else {
				b.WriteString(text[:end+1])
			}
			text = text[end+1:]
		default:
			b.WriteByte('$')
			text = text[1:]
		}
	}
}

// ExpandAll expands each of a list, such as a command.
func ExpandAll(list []string, vars []container.EnvVar) []string {
	var out []string
	for _, text := range list {
		out = append(out, Expand(text, vars))
	}
	return out
}
