package archtest

// agentLayers are the rows of the node agent, internal/agent. None of it knows a plugin or the kernel; cmd/cleatd puts it together.
func agentLayers() []layer {
	return []layer{
		{dirs: []string{"internal/agent/container"}, foreign: []string{"k8s.io/api", "k8s.io/apimachinery"}},
		{dirs: []string{"internal/agent/config"}, module: []string{"internal/agent/manifest"},
			foreign: []string{"k8s.io/api", "k8s.io/apimachinery", "github.com/fsnotify/fsnotify", sysModule}},
		{dirs: []string{"internal/agent/podhttp"}, foreign: []string{"k8s.io/api", "k8s.io/apimachinery"}},
		{dirs: []string{"internal/agent/prober"}, module: []string{"internal/agent/container", "internal/agent/decide", "internal/agent/podhttp"},
			foreign: []string{"k8s.io/api", "k8s.io/apimachinery"}},
		{dirs: []string{"internal/agent/status"}, module: []string{"internal/agent/container", "internal/agent/decide"},
			foreign: []string{"k8s.io/api", "k8s.io/apimachinery"}},
		{dirs: []string{"internal/agent/manifest"}, module: []string{"internal/nearmiss"}, foreign: []string{"k8s.io/api", "k8s.io/apimachinery", "go.yaml.in/yaml/v3"}},
		{dirs: []string{"internal/agent/cgroup"}, foreign: []string{sysModule}},
		{dirs: []string{"internal/agent/spawn"}, module: []string{"internal/netns"}, foreign: []string{sysModule}},
		{dirs: []string{"internal/agent/monitor"}, module: []string{"internal/agent/cgroup", "internal/agent/spawn", "internal/atomicfile", "internal/netns"},
			foreign: []string{sysModule}},
		{dirs: []string{"internal/agent/images"}, foreign: []string{sysModule, "github.com/google/go-containerregistry"}},
		{dirs: []string{"internal/agent/native"}, module: []string{"cni", "internal/agent/cgroup", "internal/agent/container", "internal/agent/images", "internal/agent/monitor",
			"internal/agent/network", "internal/agent/pause", "internal/agent/spawn", "internal/atomicfile", "internal/netns"},
			foreign: []string{sysModule, "k8s.io/api", "k8s.io/apimachinery", "github.com/containerd/go-runc", "github.com/opencontainers/runtime-spec"}},
		{dirs: []string{"internal/agent/server"}, module: []string{"internal/agent/manifest", "internal/agent/monitor", "internal/agent/status", "internal/atomicfile"},
			foreign: []string{"k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml"}},
		{dirs: []string{"internal/agent/pause"}, module: []string{"internal/agent/spawn"}, foreign: []string{sysModule}},
		{dirs: []string{"internal/agent/network"}, module: []string{"cni", "libcni"}, foreign: []string{"github.com/fsnotify/fsnotify"}},
		{dirs: []string{"internal/agent/decide"}, module: []string{"internal/agent/container"}, foreign: []string{"k8s.io/api", "k8s.io/apimachinery"}},
		{dirs: []string{"internal/agent/podworkers"}, module: []string{"internal/agent/container", "internal/agent/decide", "internal/agent/podhttp"},
			foreign: []string{"k8s.io/api", "k8s.io/apimachinery"}},
		{dirs: []string{"internal/agent/gc"}, module: []string{"internal/agent/container"}, foreign: []string{"k8s.io/api", "k8s.io/apimachinery"}},
		{dirs: []string{"internal/agent/syncloop"}, module: []string{"internal/agent/config", "internal/agent/container", "internal/agent/gc", "internal/agent/pleg",
			"internal/agent/podworkers", "internal/agent/prober", "internal/agent/status"}, foreign: []string{"k8s.io/api", "k8s.io/apimachinery"}},
		{dirs: []string{"internal/agent/pleg"}, module: []string{"internal/agent/container"}, foreign: []string{"k8s.io/apimachinery"}},
	}
}
