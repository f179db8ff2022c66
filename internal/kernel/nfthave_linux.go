package kernel

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// lacksNFTables reports whether an error is that of a kernel without nf_tables: netfilter's netlink has no such
// subsystem, which it says by EINVAL for want of better, or is itself not there.
func lacksNFTables(err error) bool {
	return errors.Is(err, netstate.ErrUnsupported) || errors.Is(err, unix.EINVAL)
}

// hasNFTables reports whether this kernel has nf_tables. The answer doesn't change and is kept.
func (k *Kernel) hasNFTables(ctx context.Context) (bool, error) {
	r, err := k.ruleset()
	if lacksNFTables(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answered {
		return true, nil
	}
	results, err := r.conn.ask(ctx, []filterMessage{generationMessage()}, func(int, []byte) error { return nil })
	switch {
	case err != nil:
		return false, err
	case lacksNFTables(results[0]):
		return false, nil
	}
	r.answered = results[0] == nil
	return r.answered, results[0]
}

// nftFailure explains an error of the nft half by what this kernel lacks, if it is that.
func (k *Kernel) nftFailure(ctx context.Context, err error) error {
	if !lacksNFTables(err) {
		return err
	}
	if has, asked := k.hasNFTables(ctx); has || asked != nil {
		return err
	}
	return fmt.Errorf("this kernel has no nf_tables: %w: %w", netstate.ErrUnsupported, err)
}

// nothingWithoutNFTables is err, unless this kernel has no nf_tables: then there is nothing to be removed.
func (k *Kernel) nothingWithoutNFTables(ctx context.Context, err error) error {
	if !lacksNFTables(err) {
		return err
	}
	if has, asked := k.hasNFTables(ctx); has || asked != nil {
		return err
	}
	return nil
}

// observeElements returns the elements of q that are there and their owner's.
func (k *Kernel) observeElements(ctx context.Context, q netstate.Query) ([]netstate.Element, error) {
	if len(q.Elements) == 0 {
		return nil, nil
	}
	asked, err := encodeElements(netstate.State{Tables: q.Tables, Elements: q.Elements})
	if err != nil {
		return nil, err
	}
	r, err := k.ruleset()
	if err != nil {
		return nil, err
	}
	found, err := r.owned(ctx, asked)
	return found, k.nothingWithoutNFTables(ctx, err)
}
