package manifest

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HashAnnotation is what the UID of the pod of a manifest stands in too, as in the kubelet.
const HashAnnotation = "kubernetes.io/config.hash"

// containers goes through all containers of a pod, init containers first, with the path of each.
func containers(pod *v1.Pod) iter.Seq2[string, *v1.Container] {
	return func(yield func(string, *v1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if !yield(item("spec.initContainers", i), &pod.Spec.InitContainers[i]) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(item("spec.containers", i), &pod.Spec.Containers[i]) {
				return
			}
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func orElse[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Defaults makes of a pod as a manifest has it the one that runs: with a UID (of all that the manifest says, so that an edited manifest
// is another pod, unless it sets a UID), its name with the node's behind it, namespace, node and annotation, as the kubelet does for static
// pods, and with the API server's defaults of the fields that the agent implements.
func Defaults(pod *v1.Pod, src Source) {
	if pod.UID == "" {
		pod.UID = uid(pod, src)
	}
	pod.ResourceVersion, pod.Generation = "", 0
	pod.Name += "-" + strings.ToLower(src.Node)
	orElse(&pod.Namespace, metav1.NamespaceDefault)
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Spec.NodeName = src.Node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[HashAnnotation] = string(pod.UID)
	all := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	if src.Kind == File && !slices.Contains(pod.Spec.Tolerations, all) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, all)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
	defaultSpec(&pod.Spec)
	for _, c := range containers(pod) {
		defaultContainer(c, pod.Spec.HostNetwork)
	}
}

// uid makes the UID of a pod that has none, of the manifest before any default: another release with other defaults must not replace it.
func uid(pod *v1.Pod, src Source) types.UID {
	raw, err := without(pod)
	if err != nil { // no value of the type does that
		panic(fmt.Errorf("hash pod %s: %w", pod.Name, err))
	}
	h := fnv.New128a()
	h.Write(raw)
	if src.Kind == File {
		fmt.Fprintf(h, "host:%s", src.Node)
		fmt.Fprintf(h, "file:%s", src.Name)
	} else {
		fmt.Fprintf(h, "url:%s", src.Name)
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)))
}

func defaultSpec(spec *v1.PodSpec) {
	orElse(&spec.RestartPolicy, v1.RestartPolicyAlways)
	orElse(&spec.DNSPolicy, v1.DNSClusterFirst)
	orElse(&spec.SchedulerName, v1.DefaultSchedulerName)
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = new(int64(v1.DefaultTerminationGracePeriodSeconds))
	}
	if spec.SecurityContext == nil {
		spec.SecurityContext = &v1.PodSecurityContext{}
	}
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = new(v1.DefaultEnableServiceLinks)
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.VolumeSource == (v1.VolumeSource{}) {
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
		if v.HostPath != nil && v.HostPath.Type == nil {
			v.HostPath.Type = new(v1.HostPathUnset)
		}
	}
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	orElse(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	orElse(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	if c.Image != "" {
		policy := v1.PullIfNotPresent
		if isLatest(c.Image) {
			policy = v1.PullAlways
		}
		orElse(&c.ImagePullPolicy, policy)
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		orElse(&p.Protocol, v1.ProtocolTCP)
		if hostNetwork {
			orElse(&p.HostPort, p.ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			orElse(&from.FieldRef.APIVersion, "v1")
		}
	}
	for name, limit := range c.Resources.Limits {
		if _, ok := c.Resources.Requests[name]; !ok {
			if c.Resources.Requests == nil {
				c.Resources.Requests = v1.ResourceList{}
			}
			c.Resources.Requests[name] = limit.DeepCopy()
		}
	}
	for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		orElse(&p.TimeoutSeconds, 1)
		orElse(&p.PeriodSeconds, 10)
		orElse(&p.SuccessThreshold, 1)
		orElse(&p.FailureThreshold, 3)
		defaultHTTPGet(p.HTTPGet)
		if p.GRPC != nil && p.GRPC.Service == nil {
			p.GRPC.Service = new("")
		}
	}
	if l := c.Lifecycle; l != nil {
		for _, h := range []*v1.LifecycleHandler{l.PostStart, l.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

func defaultHTTPGet(a *v1.HTTPGetAction) {
	if a != nil {
		orElse(&a.Path, "/")
		orElse(&a.Scheme, v1.URISchemeHTTP)
	}
}

// isLatest reports whether an image's name means its newest one: the tag latest, or neither tag nor digest.
func isLatest(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	_, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return !ok || tag == "latest"
}
