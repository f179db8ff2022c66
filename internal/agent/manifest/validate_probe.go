package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// probes checks the probes of a container. An init container that isn't a sidecar has none: it ends.
func (c *checker) probes(path string, ctr *v1.Container, plainInit bool) {
	for _, p := range []struct {
		name  string
		probe *v1.Probe
	}{{"livenessProbe", ctr.LivenessProbe}, {"readinessProbe", ctr.ReadinessProbe}, {"startupProbe", ctr.StartupProbe}} {
		if p.probe == nil {
			continue
		}
		at := path + "." + p.name
		if plainInit {
			c.add(at, "an init container has no probes, unless its restartPolicy is Always")
			continue
		}
		h := p.probe.ProbeHandler
		c.one(at, h.Exec != nil, h.HTTPGet != nil, h.TCPSocket != nil, h.GRPC != nil)
		c.execute(at, h.Exec)
		c.httpGet(at, ctr, h.HTTPGet)
		if h.TCPSocket != nil {
			c.port(at+".tcpSocket.port", ctr, h.TCPSocket.Port)
			c.word(at+".tcpSocket.host", orHost(h.TCPSocket.Host))
		}
		if h.GRPC != nil {
			c.between(at+".grpc.port", int64(h.GRPC.Port), 1, 65535)
		}
		c.between(at+".initialDelaySeconds", int64(p.probe.InitialDelaySeconds), 0, maxSeconds)
		c.between(at+".timeoutSeconds", int64(p.probe.TimeoutSeconds), 1, maxSeconds)
		c.between(at+".periodSeconds", int64(p.probe.PeriodSeconds), 1, maxSeconds)
		c.between(at+".failureThreshold", int64(p.probe.FailureThreshold), 1, maxSeconds)
		most := int64(maxSeconds)
		if p.name != "readinessProbe" {
			most = 1 // the first success ends them
		}
		c.between(at+".successThreshold", int64(p.probe.SuccessThreshold), 1, most)
		if g := p.probe.TerminationGracePeriodSeconds; g != nil {
			c.between(at+".terminationGracePeriodSeconds", *g, 1, maxSeconds)
		}
	}
}

// hooks checks postStart and preStop.
func (c *checker) hooks(path string, ctr *v1.Container, plainInit bool) {
	if ctr.Lifecycle == nil {
		return
	}
	if plainInit {
		c.add(path+".lifecycle", "an init container has no hooks, unless its restartPolicy is Always")
		return
	}
	for _, hook := range []struct {
		name string
		h    *v1.LifecycleHandler
	}{{"postStart", ctr.Lifecycle.PostStart}, {"preStop", ctr.Lifecycle.PreStop}} {
		if hook.h == nil {
			continue
		}
		at := path + ".lifecycle." + hook.name
		c.one(at, hook.h.Exec != nil, hook.h.HTTPGet != nil, hook.h.Sleep != nil)
		c.execute(at, hook.h.Exec)
		c.httpGet(at, ctr, hook.h.HTTPGet)
		if s := hook.h.Sleep; s != nil {
			most := int64(maxSeconds)
			if grace := c.pod.Spec.TerminationGracePeriodSeconds; grace != nil {
				most = *grace
			}
			c.between(at+".sleep.seconds", s.Seconds, 0, most)
		}
	}
}

// one wants exactly one of the ways in which a handler can act.
func (c *checker) one(path string, set ...bool) {
	n := 0
	for _, is := range set {
		if is {
			n++
		}
	}
	if n != 1 {
		c.add(path, "wants one way to act, has %d", n)
	}
}

func (c *checker) execute(path string, a *v1.ExecAction) {
	if a != nil && len(a.Command) == 0 {
		c.add(path+".exec.command", "is empty")
	}
}

func (c *checker) httpGet(path string, ctr *v1.Container, a *v1.HTTPGetAction) {
	if a == nil {
		return
	}
	path += ".httpGet"
	c.port(path+".port", ctr, a.Port)
	c.word(path+".host", orHost(a.Host))
	oneOf(c, path+".scheme", a.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)
	if strings.ContainsAny(a.Path, "\r\n\x00") {
		c.add(path+".path", "%q has a control character", a.Path)
	}
	for i, h := range a.HTTPHeaders {
		at := item(path+".httpHeaders", i)
		c.all(at+".name", h.Name, validation.IsHTTPHeaderName(h.Name))
		if strings.ContainsAny(h.Value, "\r\n\x00") {
			c.add(at+".value", "has a control character")
		}
	}
}

// orHost returns a host, or any if there is none: the pod's address is meant then.
func orHost(host string) string {
	if host == "" {
		return "localhost"
	}
	return host
}

// port wants a number, or the name of a port of the container.
func (c *checker) port(path string, ctr *v1.Container, p intstr.IntOrString) {
	if p.Type == intstr.Int {
		c.between(path, int64(p.IntVal), 1, 65535)
		return
	}
	for _, known := range ctr.Ports {
		if known.Name == p.StrVal {
			return
		}
	}
	c.add(path, "the container has no port %q", p.StrVal)
}
