package podworkers

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// Runtime is what pods are made of. Packages native and cri implement it, and agenttest in memory with the contract that all keep.
type Runtime interface {
	// Pods lists all pods of which something is left: sandboxes and containers, also those that have ended, or only files.
	Pods(ctx context.Context) ([]container.Pod, error)
	// PodStatus returns all that is known of a pod; of one that Pods does not list an empty status, without a name.
	PodStatus(ctx context.Context, uid types.UID) (*container.PodStatus, error)
	// CreateSandbox makes the namespaces, attaches them (CNI ADD) and starts what holds them. After an error there may be
	// a sandbox that does not run and has to be stopped.
	CreateSandbox(ctx context.Context, pod *v1.Pod, attempt int) (id string, err error)
	// StopSandbox ends all that runs in a sandbox and detaches it (CNI DEL). It may be called again, and succeeds for one that is not
	// known.
	StopSandbox(ctx context.Context, id string) error
	// StartContainer gets the image, makes the container and starts it. Its errors carry a reason, [container.Error].
	StartContainer(ctx context.Context, start container.Start) (id string, err error)
	// StopContainer asks a container to end (SIGTERM), gives it the grace period and kills it. It may be called again, and
	// succeeds for one that is not known.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// Exec runs a command in a container. A command that ran and did not succeed is no error.
	Exec(ctx context.Context, id string, command []string) (output []byte, exit int, err error)
	// Status says whether containers can be started, and pods be attached.
	Status(ctx context.Context) (container.Condition, error)
}
