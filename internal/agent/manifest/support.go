package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Support refuses what the agent doesn't implement, each field by its name: the error holds a [Fault] of each. It is for a pod as it was
// read; defaults that [Defaults] sets are not asked for by anybody.
func Support(pod *v1.Pod) error { return join(newSupport().refuse(pod)) }

// refuse returns what the agent doesn't implement of a pod.
func (s *support) refuse(pod *v1.Pod) []*Fault {
	s.faults = nil
	s.walk("", "", reflect.ValueOf(pod).Elem())
	return slices.Concat(s.faults, unsupportedValues(pod), unsupportedOnHost(pod))
}

// support compares what is set with the list of fields.
type support struct {
	leaves map[string]bool // may be set, with all below
	inner  map[string]bool // have leaves below
	faults []*Fault
}

func newSupport() *support {
	s := &support{leaves: map[string]bool{}, inner: map[string]bool{"": true}}
	paths := Fields()
	for _, i := range InertFields() {
		paths = append(paths, i.Path)
	}
	for _, p := range paths {
		s.leaves[p] = true
		for i, c := range p {
			if c == '.' {
				s.inner[strings.TrimSuffix(p[:i], "[]")] = true
			}
		}
	}
	return s
}

// walk goes through all that is set. A field is at path, and in the list it is called pattern, which has no numbers.
func (s *support) walk(pattern, path string, v reflect.Value) {
	if s.leaves[pattern] || v.IsZero() {
		return
	}
	if !s.inner[pattern] {
		s.faults = append(s.faults, &Fault{Field: path, Reason: "the agent does not implement it"})
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		s.walk(pattern, path, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			s.members(pattern+"[]", item(path, i), v.Index(i))
		}
	default:
		s.members(pattern, path, v)
	}
}

// members goes through the fields of a struct, those of structs inlined in it too.
func (s *support) members(pattern, path string, v reflect.Value) {
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if v.Type().Field(i).Anonymous && (name == "" || strings.Contains(options, "inline")) {
			s.members(pattern, path, v.Field(i))
			continue
		}
		if name != "" && name != "-" {
			s.walk(under(pattern, name), under(path, name), v.Field(i))
		}
	}
}

// unsupportedValues refuses values of fields that are implemented only in part.
func unsupportedValues(pod *v1.Pod) []*Fault {
	var faults []*Fault
	only := func(path string, got any, want ...string) {
		if text := fmt.Sprint(got); !slices.Contains(want, text) {
			faults = append(faults, &Fault{Field: path, Reason: fmt.Sprintf("the agent does not implement %q, only %s", text, strings.Join(want, ", "))})
		}
	}
	spec := &pod.Spec
	if p := spec.AutomountServiceAccountToken; p != nil {
		only("spec.automountServiceAccountToken", *p, "false")
	}
	if p := spec.HostUsers; p != nil {
		only("spec.hostUsers", *p, "true")
	}
	if spec.OS != nil {
		only("spec.os.name", spec.OS.Name, "linux")
	}
	if spec.SchedulerName != "" {
		only("spec.schedulerName", spec.SchedulerName, v1.DefaultSchedulerName)
	}
	if sc := spec.SecurityContext; sc != nil && sc.SeccompProfile != nil {
		only("spec.securityContext.seccompProfile.type", sc.SeccompProfile.Type, "Unconfined")
	}
	for i, v := range spec.Volumes {
		if e := v.EmptyDir; e != nil {
			path := under(item("spec.volumes", i), "emptyDir")
			if e.Medium != "" {
				only(path+".medium", e.Medium, "Memory")
			}
			if e.SizeLimit != nil && e.Medium != v1.StorageMediumMemory {
				faults = append(faults, &Fault{Field: path + ".sizeLimit", Reason: "the agent implements it only with medium Memory"})
			}
		}
	}
	for path, c := range containers(pod) {
		for _, list := range []struct {
			name string
			of   v1.ResourceList
		}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
			for _, name := range sortedKeys(list.of) {
				only(key(path+".resources."+list.name, string(name)), name, "cpu", "memory")
			}
		}
		if sc := c.SecurityContext; sc != nil && sc.SeccompProfile != nil {
			only(path+".securityContext.seccompProfile.type", sc.SeccompProfile.Type, "Unconfined")
		}
		if c.RestartPolicy != nil && strings.HasPrefix(path, "spec.initContainers") {
			only(path+".restartPolicy", *c.RestartPolicy, "Always")
		}
	}
	return faults
}

// unsupportedOnHost refuses what a container without an image can't have: its command runs as root in the host's file system, so it has
// the host's /etc/hosts, resolv.conf and paths.
func unsupportedOnHost(pod *v1.Pod) []*Fault {
	var faults []*Fault
	refuse := func(set bool, path string) {
		if set {
			faults = append(faults, &Fault{Field: path, Reason: "the agent does not implement it with a container without an image, " +
				"whose command runs as root in the host's file system"})
		}
	}
	found := false
	for path, c := range containers(pod) {
		if c.Image != "" {
			continue
		}
		found = true
		refuse(len(c.VolumeMounts) > 0, path+".volumeMounts")
		if c.SecurityContext != nil {
			rest := *c.SecurityContext
			rest.SeccompProfile = nil // that is Unconfined, and so it is
			refuse(!reflect.ValueOf(rest).IsZero(), path+".securityContext")
		}
		refuse(c.TerminationMessagePath != "" && c.TerminationMessagePath != v1.TerminationMessagePathDefault, path+".terminationMessagePath")
	}
	if !found {
		return faults
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		rest := *sc
		rest.Sysctls, rest.SeccompProfile = nil, nil
		refuse(!reflect.ValueOf(rest).IsZero(), "spec.securityContext")
	}
	refuse(len(pod.Spec.HostAliases) > 0, "spec.hostAliases")
	refuse(pod.Spec.DNSConfig != nil, "spec.dnsConfig")
	refuse(pod.Spec.DNSPolicy == v1.DNSNone, "spec.dnsPolicy")
	return faults
}

// without returns a copy of a pod without what changes nothing, for its hash: what a server counts up must not replace the pod.
func without(pod *v1.Pod) ([]byte, error) {
	p := pod.DeepCopy()
	p.ResourceVersion, p.Generation, p.Status = "", 0, v1.PodStatus{}
	return json.Marshal(p)
}
