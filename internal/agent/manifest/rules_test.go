package manifest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// TestFieldsExist goes from each field of the lists to the type it is of: a name that is mistyped refuses what it should let pass.
func TestFieldsExist(t *testing.T) {
	d := newDecoder()
	paths := Fields()
	for _, i := range InertFields() {
		paths = append(paths, i.Path)
	}
	for _, path := range paths {
		at := reflect.TypeFor[v1.Pod]()
		for step := range strings.SplitSeq(path, ".") {
			if at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
			known := map[string][]int{}
			index(at, nil, known)
			d.members[at] = known
			name, list := strings.CutSuffix(step, "[]")
			i, ok := known[name]
			if !ok {
				t.Fatalf("%s: %s has no field %s", path, at, name)
			}
			at = at.FieldByIndex(i).Type
			if list {
				at = at.Elem()
			}
		}
	}
}

func TestSupportRefuses(t *testing.T) {
	const no = ": the agent does not implement it"
	const host = no + " with a container without an image, whose command runs as root in the host's file system"
	tests := []struct{ name, lines, want string }{
		{"stdin", "    stdin: true", "9: pod web: spec.containers[0].stdin" + no},
		{"volume-of-another-kind", "  volumes: [{name: v, configMap: {name: m}}]", "9: pod web: spec.volumes[0].configMap" + no},
		{"volume-of-another-kind-empty", "  volumes:\n  - name: v\n    nfs: {}", "11: pod web: spec.volumes[0].nfs" + no},
		{"second-container", "  - name: d\n    command: [x]\n    envFrom: [{}]", "11: pod web: spec.containers[1].envFrom" + no},
		{"variable-of-a-secret", "    env: [{name: A, valueFrom: {secretKeyRef: {key: k}}}]", "9: pod web: spec.containers[0].env[0].valueFrom.secretKeyRef" + no},
		{"ephemeral-containers", "  ephemeralContainers: [{name: e}]", "9: pod web: spec.ephemeralContainers" + no},
		{"service-account", "  serviceAccountName: a", "9: pod web: spec.serviceAccountName" + no},
		{"service-account-token", "  automountServiceAccountToken: true", "9: pod web: spec.automountServiceAccountToken: the agent does not implement \"true\", only false"},
		{"user-namespace", "  hostUsers: false", "9: pod web: spec.hostUsers: the agent does not implement \"false\", only true"},
		{"system", "  os: {name: windows}", "9: pod web: spec.os.name: the agent does not implement \"windows\", only linux"},
		{"scheduler", "  schedulerName: mine", "9: pod web: spec.schedulerName: the agent does not implement \"mine\", only default-scheduler"},
		{"seccomp", "  securityContext: {seccompProfile: {type: RuntimeDefault}}",
			"9: pod web: spec.securityContext.seccompProfile.type: the agent does not implement \"RuntimeDefault\", only Unconfined"},
		{"seccomp-of-container", "    securityContext: {seccompProfile: {type: Localhost}}",
			"9: pod web: spec.containers[0].securityContext.seccompProfile.type: the agent does not implement \"Localhost\", only Unconfined"},
		{"huge-pages", "  volumes: [{name: v, emptyDir: {medium: HugePages}}]",
			"9: pod web: spec.volumes[0].emptyDir.medium: the agent does not implement \"HugePages\", only Memory"},
		{"size-of-a-folder", "  volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]",
			"9: pod web: spec.volumes[0].emptyDir.sizeLimit: the agent implements it only with medium Memory"},
		{"resource", "    resources: {limits: {nvidia.com/gpu: 1}}",
			"9: pod web: spec.containers[0].resources.limits[nvidia.com/gpu]: the agent does not implement \"nvidia.com/gpu\", only cpu, memory"},
		{"restart-policy-of-container", "    restartPolicy: Always", "9: pod web: spec.containers[0].restartPolicy" + no},
		{"restart-policy-of-init", "  initContainers: [{name: i, command: [x], restartPolicy: Never}]",
			"9: pod web: spec.initContainers[0].restartPolicy: the agent does not implement \"Never\", only Always"},
		{"node-selector", "  nodeSelector: {disk: ssd}", "9: pod web: spec.nodeSelector" + no},
		{"deadline", "  activeDeadlineSeconds: 5", "9: pod web: spec.activeDeadlineSeconds" + no},
		{"tcp-hook", "    lifecycle: {preStop: {tcpSocket: {port: 1}}}", "9: pod web: spec.containers[0].lifecycle.preStop.tcpSocket" + no},
		{"mount-on-the-host", "    volumeMounts: [{name: v, mountPath: /v}]\n  volumes: [{name: v}]", "9: pod web: spec.containers[0].volumeMounts" + host},
		{"user-on-the-host", "    securityContext: {runAsUser: 1}", "9: pod web: spec.containers[0].securityContext" + host},
		{"user-of-the-pod-on-the-host", "  securityContext: {runAsUser: 1}", "9: pod web: spec.securityContext" + host},
		{"message-on-the-host", "    terminationMessagePath: /m", "9: pod web: spec.containers[0].terminationMessagePath" + host},
		{"names-on-the-host", "  hostAliases: [{ip: 192.0.2.1}]", "9: pod web: spec.hostAliases" + host},
		{"resolver-on-the-host", "  dnsPolicy: None", "9: pod web: spec.dnsPolicy" + host},
		{"resolver-config-on-the-host", "  dnsConfig: {}", "9: pod web: spec.dnsConfig" + host},
		{"probe-grace-of-readiness", "    readinessProbe: {exec: {command: [x]}, terminationGracePeriodSeconds: 1}",
			"9: pod web: spec.containers[0].readinessProbe.terminationGracePeriodSeconds" + no},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refuses(t, simple(tt.lines), "pod.yaml:"+tt.want) })
	}
}

func refuses(t *testing.T, text, want string) {
	t.Helper()
	_, err := Parse(source(), []byte(text))
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestSupportTakesWhatIsLeftOut(t *testing.T) {
	if err := Support(&v1.Pod{}); err != nil {
		t.Error(err)
	}
	if err := Support(&v1.Pod{Spec: v1.PodSpec{Subdomain: "a"}}); err == nil {
		t.Error("subdomain: no error")
	}
}

func TestValidateRefuses(t *testing.T) {
	replaced := func(old, text string) string { return strings.Replace(simple(), old, text, 1) }
	with := func(lines string) string { // with an image, without which less is taken
		return strings.Replace(simple(lines), "    command: [sleep]", "    image: a", 1)
	}
	const c0 = ": pod web: spec.containers[0]"
	tests := []struct{ name, text, want string }{
		{"no-name", replaced("name: web", "labels: {}"), "3: metadata.name: there is none"},
		{"no-containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}", "1: pod web: spec.containers: there is none"},
		{"name", replaced("web", "Web_"), "4: pod Web_: metadata.name: \"Web_-node1\": a lowercase RFC 1123 subdomain must consist of lower case " +
			"alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
			"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"},
		{"uid-with-two-dots", replaced("name: web", "name: web\n  uid: a..b"), "5: pod web: metadata.uid: \"a..b\" is no UID: want up to 128 letters, digits, hyphens, dots and underscores"},
		{"too-long-together", replaced("name: web", "name: "+strings.Repeat("a.", 99)+"a\n  namespace: "+strings.Repeat("n", 60)),
			"4: pod " + strings.Repeat("a.", 99) + "a: metadata.name: with the namespace and the UID it has 299 bytes, and the folder of the logs can have 255"},
		{"uid-that-climbs", replaced("name: web", "name: web\n  uid: ../../etc"),
			"5: pod web: metadata.uid: \"../../etc\" is no UID: want up to 128 letters, digits, hyphens, dots and underscores"},
		{"uid-of-dots", replaced("name: web", "name: web\n  uid: .."),
			"5: pod web: metadata.uid: \"..\" is no UID: want up to 128 letters, digits, hyphens, dots and underscores"},
		{"restart-policy", with("  restartPolicy: always"), `9: pod web: spec.restartPolicy: "always" is none of ["Always" "OnFailure" "Never"]`},
		{"grace", with("  terminationGracePeriodSeconds: -1"), "9: pod web: spec.terminationGracePeriodSeconds: -1 is not in 0 to 2147483647"},
		{"annotations-too-long", replaced("name: web", "name: web\n  annotations: {a: "+strings.Repeat("x", 256<<10)+"}"),
			"5: pod web: metadata.annotations: they have 262202 bytes, and 262144 are allowed"},
		{"share-and-host", with("  hostPID: true\n  shareProcessNamespace: true"), "10: pod web: spec.shareProcessNamespace: can't be together with hostPID"},
		{"alias-address", with("  hostAliases: [{ip: x}]"), `9: pod web: spec.hostAliases[0].ip: "x" is no IP address`},
		{"dns-none", with("  dnsPolicy: None"), "5: pod web: spec.dnsConfig.nameservers: dnsPolicy None wants one at least"},
		{"dns-option-of-lines", with("  dnsConfig: {options: [{name: \"a\\nnameserver x\"}]}"),
			`9: pod web: spec.dnsConfig.options[0].name: "a\nnameserver x" is empty or has a space or control character`},
		{"dns-servers", with("  dnsConfig: {nameservers: [\"::1\", \"::1\", \"::1\", \"::1\"]}"),
			"9: pod web: spec.dnsConfig.nameservers: there are 4, and resolvers use 3"},
		{"sysctl-of-the-host", with("  securityContext: {sysctls: [{name: kernel.panic, value: \"1\"}]}"),
			"9: pod web: spec.securityContext.sysctls[0].name: kernel.panic is of the whole host"},
		{"sysctl-of-the-host-network", with("  hostNetwork: true\n  securityContext: {sysctls: [{name: net/core/somaxconn, value: \"1\"}]}"),
			"10: pod web: spec.securityContext.sysctls[0].name: net/core/somaxconn is the host's with hostNetwork"},
		{"sysctl-that-climbs", with("  securityContext: {sysctls: [{name: net/../kernel, value: \"1\"}]}"),
			`9: pod web: spec.securityContext.sysctls[0].name: "net/../kernel" is no sysctl`},
		{"host-path-that-climbs", with("  volumes: [{name: v, hostPath: {path: /var/../etc}}]"),
			`9: pod web: spec.volumes[0].hostPath.path: "/var/../etc" has a step upwards`},
		{"host-path-relative", with("  volumes: [{name: v, hostPath: {path: etc}}]"), `9: pod web: spec.volumes[0].hostPath.path: "etc" is not absolute`},
		{"host-path-type", with("  volumes: [{name: v, hostPath: {path: /etc, type: Dir}}]"), `9: pod web: spec.volumes[0].hostPath.type: "Dir" is none of ` +
			`["" "DirectoryOrCreate" "Directory" "FileOrCreate" "File" "Socket" "CharDevice" "BlockDevice"]`},
		{"volume-twice", with("  volumes: [{name: v}, {name: v}]"), "9: pod web: spec.volumes[1].name: v stands twice"},
		{"volume-of-two-kinds", with("  volumes: [{name: v, emptyDir: {}, hostPath: {path: /a}}]"), "9: pod web: spec.volumes[0]: is both emptyDir and hostPath"},
		{"container-twice", with("  - {name: c, image: a}"), "9: pod web: spec.containers[1].name: c stands twice"},
		{"neither-image-nor-command", replaced("command", "args"), "7" + c0 + ": has neither image nor command"},
		{"image-with-spaces", replaced("command: [sleep]", "image: \"a b\""), "8" + c0 + `.image: "a b" has spaces`},
		{"pull-without-image", simple("    imagePullPolicy: Always"), "9" + c0 + ".imagePullPolicy: there is no image"},
		{"port", with("    ports: [{containerPort: 70000}]"), "9" + c0 + ".ports[0].containerPort: 70000 is not in 1 to 65535"},
		{"protocol", with("    ports: [{containerPort: 1, protocol: tcp}]"), "9" + c0 + `.ports[0].protocol: "tcp" is none of ["TCP" "UDP" "SCTP"]`},
		{"host-port-twice", with("    ports:\n    - {containerPort: 1, hostPort: 80, hostIP: \"::1\"}\n    - {containerPort: 2, hostPort: 80, hostIP: \"0::1\"}"),
			"11" + c0 + ".ports[1].hostPort: 80 is also that of spec.containers[0].ports[0]"},
		{"host-port-of-the-node", with("    ports: [{containerPort: 1, hostPort: 2}]\n  hostNetwork: true"),
			"9" + c0 + ".ports[0].hostPort: is not containerPort, which it is with hostNetwork"},
		{"variable-name", with("    env: [{name: A=B}]"), "9" + c0 + `.env[0].name: "A=B": a valid environment variable name must consist only of ` +
			"printable ASCII characters other than '='"},
		{"variable-from-nowhere", with("    env: [{name: A, valueFrom: {}}]"), "9" + c0 + ".env[0].valueFrom: says not from where"},
		{"variable-of-another-field", with("    env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.qosClass}}}]"), "9" + c0 +
			".env[0].valueFrom.fieldRef.fieldPath: the agent does not implement \"status.qosClass\", only " + strings.Join(FieldRefs(), ", ")},
		{"variable-of-all-labels", with("    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}]"), "9" + c0 +
			".env[0].valueFrom.fieldRef.fieldPath: a variable takes one of them: metadata.labels['key']"},
		{"variable-of-a-label-without-an-end", with("    env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a\"}}}]"), "9" + c0 +
			".env[0].valueFrom.fieldRef.fieldPath: the agent does not implement \"metadata.labels['a\", only " + strings.Join(FieldRefs(), ", ")},
		{"variable-of-a-name-with-a-key", with("    env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.name['a']\"}}}]"), "9" + c0 +
			".env[0].valueFrom.fieldRef.fieldPath: the agent does not implement \"metadata.name['a']\", only " + strings.Join(FieldRefs(), ", ")},
		{"sysctl-of-one-part", with("  securityContext: {sysctls: [{name: net, value: \"1\"}]}"),
			`9: pod web: spec.securityContext.sysctls[0].name: "net" is no sysctl`},
		{"sysctl-with-an-end", with("  securityContext: {sysctls: [{name: net.ipv4., value: \"1\"}]}"),
			`9: pod web: spec.securityContext.sysctls[0].name: "net.ipv4." is no sysctl`},
		{"variable-of-another-container", with("    env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, containerName: d}}}]"), "9" + c0 +
			`.env[0].valueFrom.resourceFieldRef.containerName: there is no container "d"`},
		{"request-over-limit", with("    resources: {limits: {cpu: 1}, requests: {cpu: 2}}"), "9" + c0 + ".resources.requests[cpu]: 2 is more than the limit 1"},
		{"memory-without-a-unit", with("    resources: {limits: {memory: 64}}"), "9" + c0 +
			".resources.limits[memory]: 64 is less than the 4194304 bytes without which no container starts; a limit has a unit, such as 64Mi"},
		{"mount-of-no-volume", with("    volumeMounts: [{name: v, mountPath: /v}]"), "9" + c0 + `.volumeMounts[0].name: there is no volume "v"`},
		{"mount-that-climbs", with("    volumeMounts: [{name: v, mountPath: /../v}]\n  volumes: [{name: v}]"),
			"9" + c0 + `.volumeMounts[0].mountPath: "/../v" has a step upwards`},
		{"privileged-without-escalation", with("    securityContext: {privileged: true, allowPrivilegeEscalation: false}"),
			"9" + c0 + ".securityContext.allowPrivilegeEscalation: can't be false with privileged"},
		{"capability", with("    securityContext: {capabilities: {add: [\"NET ADMIN\"]}}"), "9" + c0 + `.securityContext.capabilities.add[0]: "NET ADMIN" is no capability`},
		{"user", with("    securityContext: {runAsUser: -1}"), "9" + c0 + ".securityContext.runAsUser: -1 is not in 0 to 2147483647"},
		{"probe-of-nothing", with("    livenessProbe: {}"), "9" + c0 + ".livenessProbe: wants one way to act, has 0"},
		{"probe-of-two", with("    livenessProbe: {exec: {command: [x]}, tcpSocket: {port: 1}}"), "9" + c0 + ".livenessProbe: wants one way to act, has 2"},
		{"probe-without-command", with("    livenessProbe: {exec: {}}"), "9" + c0 + ".livenessProbe.exec.command: is empty"},
		{"probe-of-a-port-without-name", with("    livenessProbe: {tcpSocket: {port: http}}"), "9" + c0 + `.livenessProbe.tcpSocket.port: the container has no port "http"`},
		{"liveness-with-two-successes", with("    livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2}"), "9" + c0 + ".livenessProbe.successThreshold: 2 is not in 1 to 1"},
		{"probe-with-negative-period", with("    livenessProbe: {tcpSocket: {port: 1}, periodSeconds: -1}"), "9" + c0 +
			".livenessProbe.periodSeconds: -1 is not in 1 to 2147483647"},
		{"probe-header", with("    livenessProbe: {httpGet: {port: 1, httpHeaders: [{name: A, value: \"a\\r\\nB: c\"}]}}"), "9" + c0 +
			".livenessProbe.httpGet.httpHeaders[0].value: has a control character"},
		{"probe-of-init", with("  initContainers: [{name: i, image: a, livenessProbe: {tcpSocket: {port: 1}}}]"),
			"9: pod web: spec.initContainers[0].livenessProbe: an init container has no probes, unless its restartPolicy is Always"},
		{"hook-of-init", with("  initContainers: [{name: i, image: a, lifecycle: {}}]"),
			"9: pod web: spec.initContainers[0].lifecycle: an init container has no hooks, unless its restartPolicy is Always"},
		{"hook-that-sleeps-too-long", with("    lifecycle: {preStop: {sleep: {seconds: 31}}}"), "9" + c0 + ".lifecycle.preStop.sleep.seconds: 31 is not in 0 to 30"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refuses(t, tt.text, "pod.yaml:"+tt.want) })
	}
}

// TestValidateWithoutDefaults is about pods that nobody has looked at.
func TestValidateWithoutDefaults(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}}},
		Containers: []v1.Container{{Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{}}},
			LivenessProbe: &v1.Probe{}, SecurityContext: &v1.SecurityContext{}}},
	}}
	if err := Validate(pod); err == nil {
		t.Error("no error")
	}
}

// TestFieldsDocument keeps the page about the fields current.
func TestFieldsDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# The fields of a Pod that the agent implements

A manifest may set these; every other field is refused by its name when the manifest is read. What stands in a list is marked by ` + "`[]`" + `.
This page is written by ` + "`go test ./internal/agent/manifest -update`" + `.

`)
	for _, f := range Fields() {
		if !strings.HasPrefix(f, "spec.containers[]") && !strings.HasPrefix(f, "spec.initContainers[]") {
			fmt.Fprintf(&b, "- `%s`\n", f)
		}
	}
	b.WriteString("\nOf each of `spec.containers[]` and `spec.initContainers[]`, and of the latter `restartPolicy` (Always makes a sidecar) too:\n\n")
	for _, f := range containerFields() {
		fmt.Fprintf(&b, "- `%s`\n", f)
	}
	b.WriteString("\nOf `resources`, cpu and memory are implemented; of `seccompProfile`, type Unconfined; of `emptyDir`, medium Memory and none, and a " +
		"sizeLimit only with Memory. A variable's `fieldPath` is one of " + strings.Join(FieldRefs(), ", ") +
		", with `['key']` behind labels and annotations.\n" +
		"A container without an image runs its command as root in the host's file system; it takes no volumeMounts, securityContext and " +
		"terminationMessagePath, and its pod no dnsConfig, dnsPolicy None, hostAliases and of securityContext only sysctls.\n\n## Fields that change nothing\n\n| field | why |\n|---|---|\n")
	for _, f := range InertFields() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Path, f.Why)
	}
	golden(t, "../../../../docs/agent-fields.md", []byte(b.String()))
}
