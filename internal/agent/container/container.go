// Package container is what the parts of the agent say to each other about what runs: pods, sandboxes and containers as a runtime
// sees them. It is data; the runtimes are in native and cri, and each part declares the interface that it needs of them.
//
// Names follow k8s.io/kubernetes/pkg/kubelet/container, so that who knows the kubelet finds the way.
package container

import (
	"io"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is the state of a sandbox or a container.
type State string

// The states. A sandbox is only ever running (the CRI says READY) or exited.
const (
	StateCreated State = "created"
	StateRunning State = "running"
	StateExited  State = "exited"
	StateUnknown State = "unknown"
)

// Pod is a pod as a list of the runtime shows it: cheap to get, and enough to see that something changed.
type Pod struct {
	UID        types.UID
	Name       string
	Namespace  string
	Sandboxes  []Item
	Containers []Item
}

// Item is a sandbox or a container in a list.
type Item struct {
	ID    string
	Name  string // of the container in the spec; "" for a sandbox
	State State
}

// Command is one that is run in a container beside what runs there.
type Command struct {
	Args   []string  // required: the program and its arguments
	Stdin  io.Reader // nil is none
	Stdout io.Writer // required
	Stderr io.Writer // required; may be the same
}

// SandboxStatus is all that a runtime knows of a sandbox.
type SandboxStatus struct {
	ID          string
	Attempt     int // 0 for the first sandbox of a pod
	State       State
	CreatedAt   time.Time
	HostNetwork bool
	IPs         []netip.Addr // of the default network, the first is the pod's IP; none once it was detached
}

// Status is all that a runtime knows of a container.
type Status struct {
	ID           string
	SandboxID    string
	Name         string // in the spec
	State        State
	Image        string // as the spec names it; "" for a host command
	ImageID      string
	Hash         string // of the part of the spec that it was started from, see HashContainer
	RestartCount int
	CreatedAt    time.Time
	StartedAt    time.Time // zero until it was started
	FinishedAt   time.Time // zero until it ended
	ExitCode     int       // 128 + n if signal n ended it
	Reason       string    // Completed, Error, OOMKilled, ContainerCannotRun, …
	Message      string    // of the termination message or the runtime
	LogPath      string
}

// PodStatus is all that a runtime knows of a pod, at one time.
type PodStatus struct {
	UID        types.UID
	Name       string
	Namespace  string
	CreatedAt  time.Time // when something of it was made first; zero if nothing is known of it, or that is not
	IPs        []netip.Addr
	Sandboxes  []SandboxStatus // newest first
	Containers []Status        // newest first
	At         time.Time       // when the runtime was asked
}

// FindContainer returns the newest container of a name, or nil.
func (s *PodStatus) FindContainer(name string) *Status {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// Running reports whether a sandbox or a container of the pod runs.
func (p *Pod) Running() bool {
	for _, list := range [][]Item{p.Sandboxes, p.Containers} {
		for _, i := range list {
			if i.State == StateRunning {
				return true
			}
		}
	}
	return false
}

// Start is what a container is started from. The pod's defaults have been applied and the downward API resolved.
type Start struct {
	Pod          *v1.Pod
	SandboxID    string
	Container    *v1.Container // as the spec has it: this is what [HashContainer] is told
	Init         bool          // an init container or a sidecar
	Command      []string      // of the container, with $(VAR) expanded
	Args         []string      // likewise
	RestartCount int
	Env          []EnvVar // in the order of the spec, expanded
	IPs          []netip.Addr
}

// EnvVar is one variable of a container's environment.
type EnvVar struct{ Name, Value string }

// Condition is how a runtime stands as a whole.
type Condition struct {
	RuntimeReady   bool
	RuntimeMessage string
	NetworkReady   bool
	// NetworkMessage names the plugin, the file and what to do, if the network is not ready.
	NetworkMessage string
}
