package container

import "k8s.io/apimachinery/pkg/types"

// ProbeResult is what the probes of a kind last concluded about a container. The zero value is that nothing is known yet.
type ProbeResult int

// The results.
const (
	ProbeUnknown ProbeResult = iota
	ProbeSuccess
	ProbeFailure
)

// ProbeUpdate says that the result of a container's probe changed. The channel tells which kind of probe it was.
type ProbeUpdate struct {
	UID         types.UID
	ContainerID string
	Result      ProbeResult
}
