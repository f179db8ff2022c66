package cli

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/hostnet"
	"github.com/cleat-cni/cleat/internal/lint"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
)

// lintNode is this machine, as lint asks it.
type lintNode struct {
	cni    *libcni.CNI
	runner *builtin.Runner
	dirs   []string
	root   fs.FS
	asked  map[string]lint.Installed // by type, so that a program is asked once
}

var _ lint.Node = (*lintNode)(nil)

// answerTime is how long a plugin has to say its versions.
const answerTime = 5 * time.Second

// Plugin says what runs a type. A program that doesn't say which versions it speaks is there all the same.
func (n *lintNode) Plugin(ctx context.Context, typ string) (lint.Installed, error) {
	if in, ok := n.asked[typ]; ok {
		return in, nil
	}
	where, err := n.runner.Where(typ, n.dirs)
	if err != nil {
		return lint.Installed{}, err
	}
	in := lint.Installed{Where: where.String()}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if info, err := n.cni.GetVersionInfo(ctx, typ); err == nil {
		in.Versions = info.Supported
	}
	if n.asked == nil {
		n.asked = map[string]lint.Installed{}
	}
	n.asked[typ] = in
	return in, nil
}

// Facts is what the kernel says.
func (n *lintNode) Facts(ctx context.Context, q netstate.Query) (netstate.Facts, error) {
	return n.runner.Observe(ctx, q)
}

// Net is the host's network.
func (n *lintNode) Net() (hostnet.State, error) {
	links, err := net.Interfaces()
	if err != nil {
		return hostnet.State{}, fmt.Errorf("list interfaces: %w", err)
	}
	return hostnet.Read(n.root, links)
}
