package manifest

import "slices"

// Fields returns the fields of a Pod that a manifest may set, as in spec.containers[].image, in the order of the pages about them.
// What [Inert] returns may be set too. Everything else is refused by name.
func Fields() []string {
	list := []string{
		"apiVersion", "kind",
		"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations",
		"metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds",
		"spec.nodeName", "spec.restartPolicy", "spec.terminationGracePeriodSeconds",
		"spec.hostNetwork", "spec.hostPID", "spec.hostIPC", "spec.shareProcessNamespace",
		"spec.hostname", "spec.hostAliases[].ip", "spec.hostAliases[].hostnames",
		"spec.dnsPolicy", "spec.dnsConfig.nameservers", "spec.dnsConfig.searches", "spec.dnsConfig.options[].name", "spec.dnsConfig.options[].value",
		"spec.securityContext.runAsUser", "spec.securityContext.runAsGroup", "spec.securityContext.runAsNonRoot",
		"spec.securityContext.supplementalGroups", "spec.securityContext.fsGroup",
		"spec.securityContext.sysctls[].name", "spec.securityContext.sysctls[].value", "spec.securityContext.seccompProfile.type",
		"spec.volumes[].name", "spec.volumes[].emptyDir.medium", "spec.volumes[].emptyDir.sizeLimit",
		"spec.volumes[].hostPath.path", "spec.volumes[].hostPath.type",
	}
	for _, prefix := range []string{"spec.containers[].", "spec.initContainers[]."} {
		for _, f := range containerFields() {
			list = append(list, prefix+f)
		}
	}
	return append(list, "spec.initContainers[].restartPolicy")
}

// containerFields are the fields of a container, an init container and a sidecar.
func containerFields() []string {
	list := []string{
		"name", "image", "command", "args", "workingDir",
		"ports[].name", "ports[].containerPort", "ports[].hostPort", "ports[].hostIP", "ports[].protocol",
		"env[].name", "env[].value", "env[].valueFrom.fieldRef.apiVersion", "env[].valueFrom.fieldRef.fieldPath",
		"env[].valueFrom.resourceFieldRef.containerName", "env[].valueFrom.resourceFieldRef.resource", "env[].valueFrom.resourceFieldRef.divisor",
		"resources.limits", "resources.requests",
		"volumeMounts[].name", "volumeMounts[].mountPath", "volumeMounts[].readOnly",
		"securityContext.runAsUser", "securityContext.runAsGroup", "securityContext.runAsNonRoot", "securityContext.privileged",
		"securityContext.capabilities.add", "securityContext.capabilities.drop", "securityContext.readOnlyRootFilesystem",
		"securityContext.allowPrivilegeEscalation", "securityContext.seccompProfile.type",
		"terminationMessagePath", "terminationMessagePolicy",
	}
	exec := "exec.command"
	http := []string{"httpGet.path", "httpGet.port", "httpGet.host", "httpGet.scheme", "httpGet.httpHeaders[].name", "httpGet.httpHeaders[].value"}
	for _, hook := range []string{"lifecycle.postStart.", "lifecycle.preStop."} {
		for _, f := range append([]string{exec, "sleep.seconds"}, http...) {
			list = append(list, hook+f)
		}
	}
	probe := slices.Concat([]string{exec}, http, []string{"tcpSocket.port", "tcpSocket.host", "grpc.port", "grpc.service",
		"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"})
	for _, p := range []string{"livenessProbe.", "readinessProbe.", "startupProbe."} {
		for _, f := range probe {
			list = append(list, p+f)
		}
	}
	return append(list, "livenessProbe.terminationGracePeriodSeconds", "startupProbe.terminationGracePeriodSeconds")
}

// Inert is a field that a manifest may set and that changes nothing, and why nothing is lost by that.
type Inert struct{ Path, Why string }

// InertFields returns the fields that change nothing. What stands below one is meant too.
func InertFields() []Inert {
	const (
		server = "a server writes it"
		images = "images come from the folder of images, and are looked up there each time"
	)
	return []Inert{
		{"metadata.generation", server},
		{"metadata.resourceVersion", server},
		{"spec.containers[].imagePullPolicy", images},
		{"spec.initContainers[].imagePullPolicy", images},
		{"spec.automountServiceAccountToken", "only false is taken: there are no service accounts"},
		{"spec.enableServiceLinks", "there are no services whose variables a container could get"},
		{"spec.hostUsers", "only true is taken"},
		{"spec.os", "only linux is taken"},
		{"spec.preemptionPolicy", "no pod gives way to another"},
		{"spec.priority", "no pod gives way to another"},
		{"spec.priorityClassName", "no pod gives way to another"},
		{"spec.schedulerName", "only default-scheduler is taken: the pod is on its node already"},
		{"spec.tolerations", "the node has no taints"},
		{"status", "the agent writes it"},
	}
}
