package native

import (
	"fmt"
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/cgroup"
	"github.com/cleat-cni/cleat/internal/agent/network"
)

// The annotations that limit a pod's traffic, in bits a second.
const (
	annotationIngress = "kubernetes.io/ingress-bandwidth"
	annotationEgress  = "kubernetes.io/egress-bandwidth"
)

// networkPod is the pod as its networks see it.
func networkPod(pod *v1.Pod) (*network.Pod, error) {
	p := &network.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Annotations: pod.Annotations,
		Ports: ports(pod)}
	var err error
	if p.Networks, err = network.ParseNetworks(pod.Annotations[network.Annotation]); err != nil {
		return nil, err
	}
	if p.Bandwidth.IngressRate, err = rate(pod, annotationIngress); err != nil {
		return nil, err
	}
	if p.Bandwidth.EgressRate, err = rate(pod, annotationEgress); err != nil {
		return nil, err
	}
	// As containerd has it: no burst is too long.
	if p.Bandwidth.IngressRate > 0 {
		p.Bandwidth.IngressBurst = math.MaxUint32
	}
	if p.Bandwidth.EgressRate > 0 {
		p.Bandwidth.EgressBurst = math.MaxUint32
	}
	if d := pod.Spec.DNSConfig; d != nil {
		p.DNS = cni.DNS{Nameservers: d.Nameservers, Search: d.Searches, Options: dnsOptions(d)}
	}
	return p, nil
}

// ports are the published ports of all containers, also of sidecars.
func ports(pod *v1.Pod) []cni.PortMapping {
	var list []cni.PortMapping
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			for _, p := range c.Ports {
				if p.HostPort > 0 {
					list = append(list, cni.PortMapping{HostPort: int(p.HostPort), ContainerPort: int(p.ContainerPort),
						Protocol: strings.ToLower(string(p.Protocol)), HostIP: p.HostIP})
				}
			}
		}
	}
	return list
}

// rate is the value of an annotation in bits a second; 0 is no limit.
func rate(pod *v1.Pod, annotation string) (uint64, error) {
	text, ok := pod.Annotations[annotation]
	if !ok {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return 0, fmt.Errorf("annotation %s: %q is no rate, such as 10M", annotation, text)
	}
	return uint64(q.Value()), nil
}

// hostname is the pod's, in its UTS namespace.
func hostname(pod *v1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	const most = 63 // of a label; the kernel takes 64 bytes
	if len(name) > most {
		name = strings.TrimRight(name[:most], "-.")
	}
	return name
}

func sysctls(pod *v1.Pod) []string {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	var list []string
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		list = append(list, s.Name+"="+s.Value)
	}
	return list
}

// podGroup is the name of a pod's control group.
func (r *Runtime) podGroup(uid types.UID) string { return r.cfg.Cgroup + "/" + string(uid) }

// podLimits bound the pod as a whole: by the sum of its containers, where each has a limit.
func podLimits(pod *v1.Pod) cgroup.Limits {
	var sum cgroup.Limits
	cpuBounded, memoryBounded := true, true
	for i := range pod.Spec.Containers {
		l := limits(&pod.Spec.Containers[i])
		sum.CPUShares += l.CPUShares
		sum.CPUQuota += l.CPUQuota
		sum.Memory += l.Memory
		cpuBounded, memoryBounded = cpuBounded && l.CPUQuota > 0, memoryBounded && l.Memory > 0
	}
	for i := range pod.Spec.InitContainers {
		l := limits(&pod.Spec.InitContainers[i])
		sum.CPUShares = max(sum.CPUShares, l.CPUShares)
		sum.CPUQuota, sum.Memory = max(sum.CPUQuota, l.CPUQuota), max(sum.Memory, l.Memory)
		if isSidecar(&pod.Spec.InitContainers[i]) { // it runs beside the others
			cpuBounded, memoryBounded = false, false
		}
	}
	if !cpuBounded {
		sum.CPUQuota = 0
	}
	if !memoryBounded {
		sum.Memory = 0
	}
	return sum
}

func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// The conversion of CPU to shares and quota, as the kubelet has it.
const (
	sharesPerCPU = 1024
	minShares    = 2
	quotaPerCPU  = 100_000 // in a period of 100 ms
	minQuota     = 1_000
	milli        = 1000
)

// limits are those of a container. A limit without a request is the request as well.
func limits(c *v1.Container) cgroup.Limits {
	var l cgroup.Limits
	cpu, ok := c.Resources.Requests[v1.ResourceCPU]
	limit, limited := c.Resources.Limits[v1.ResourceCPU]
	if !ok {
		cpu = limit
	}
	l.CPUShares = minShares
	if m := cpu.MilliValue(); m > 0 {
		l.CPUShares = max(uint64(m)*sharesPerCPU/milli, minShares)
	}
	if limited && limit.MilliValue() > 0 {
		l.CPUQuota = max(limit.MilliValue()*quotaPerCPU/milli, minQuota)
	}
	if memory, ok := c.Resources.Limits[v1.ResourceMemory]; ok {
		l.Memory = memory.Value()
	}
	return l
}

func dnsOptions(d *v1.PodDNSConfig) []string {
	var list []string
	for _, o := range d.Options {
		if o.Value == nil {
			list = append(list, o.Name)
		} else {
			list = append(list, o.Name+":"+*o.Value)
		}
	}
	return list
}
