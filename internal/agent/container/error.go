package container

import "errors"

// Reasons why a container does not run, as its status shows them.
const (
	ReasonImagePull       = "ErrImagePull"
	ReasonConfig          = "CreateContainerConfigError"
	ReasonCreate          = "CreateContainerError"
	ReasonRun             = "RunContainerError"
	ReasonPostStart       = "PostStartHookError"
	ReasonCrashLoop       = "CrashLoopBackOff"
	ReasonCreating        = "ContainerCreating"
	ReasonPodInitializing = "PodInitializing"
	ReasonStatusUnknown   = "ContainerStatusUnknown"
)

// ErrNetworkNotReady is the error of a pod that waits for a network to become ready: nothing was made, and it is worth another try soon.
var ErrNetworkNotReady = errors.New("network is not ready")

// Error is an error of a runtime with the reason that the container's status gives.
type Error struct {
	Reason string
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Reason returns the reason that an error carries, and [ReasonRun] if it carries none.
func Reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ReasonRun
}
