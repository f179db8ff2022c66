package plugin

import (
	"errors"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/netstate"
)

// NetNSError gives an error about the namespace of a request its code and a hint.
func NetNSError(path string, err error) error {
	switch {
	case errors.Is(err, netstate.ErrHostNamespace):
		return cni.Errorf(cni.CodeInvalidNetNS, "CNI_NETNS %s: %w", path, netstate.ErrHostNamespace).
			WithHint("give the container's namespace, not the one the plugin runs in")
	case errors.Is(err, netstate.ErrNotExist), errors.Is(err, netstate.ErrNotNamespace):
		return cni.Errorf(cni.CodeInvalidNetNS, "CNI_NETNS: %w", err).
			WithHint("the runtime makes the namespace before ADD; ip netns list shows the named ones")
	default:
		return err
	}
}

// keepOffOwnNetNS refuses the plugin's own namespace before anything is done. On DEL the
// host's side is to be freed all the same, so there the namespace is taken for gone. GC and STATUS
// are about no container, whatever the environment holds.
func (r *Request) keepOffOwnNetNS() error {
	if r.NetNS == "" || r.AllowHostNetNS || r.Verb == cni.VerbGC || r.Verb == cni.VerbStatus {
		return nil
	}
	own, err := isOwn(r.NetNS)
	switch {
	case own && r.Verb == cni.VerbDel:
		r.NetNS = ""
	case own:
		return NetNSError(r.NetNS, netstate.ErrHostNamespace)
	case err != nil && r.Verb != cni.VerbDel:
		return NetNSError(r.NetNS, err)
	}
	return nil
}

func isOwn(path string) (bool, error) {
	h, err := netns.Open(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer h.Close()
	own, err := netns.Current()
	if err != nil {
		return false, err
	}
	defer own.Close()
	return own.Same(h)
}
