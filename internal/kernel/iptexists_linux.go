package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// iptExists reports whether a table of iptables may hold one of the chains, or if none is named whether it may be there at all. It
// starts no program: nf_tables is asked for the table or the chains that iptables-nft works on, and of the
// legacy ones the kernel tells the tables that are in use.
func (k *Kernel) iptExists(ctx context.Context, family, table string, chains []string) (bool, error) {
	file := "/proc/thread-self/net/ip_tables_names"
	if family == "ip6" {
		file = "/proc/thread-self/net/ip6_tables_names"
	}
	var names []byte
	err := k.host.do(func() error {
		var err error
		names, err = os.ReadFile(file)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("list tables of iptables: %w", err)
	}
	if strings.Contains("\n"+string(names), "\n"+table+"\n") {
		return true, nil
	}
	return k.nftExists(ctx, family, table, chains)
}

// iptMayExist is iptExists for who removes: where it can't be told the programs are asked.
func (k *Kernel) iptMayExist(ctx context.Context, family, table string, chains []string) bool {
	there, err := k.iptExists(ctx, family, table, chains)
	return there || err != nil
}

// nftExists looks for a table of nf_tables, or for any of some chains in it.
func (k *Kernel) nftExists(ctx context.Context, family, table string, chains []string) (bool, error) {
	r, err := k.ruleset()
	if errors.Is(err, netstate.ErrUnsupported) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	number := uint8(unix.NFPROTO_IPV4)
	if family == "ip6" {
		number = unix.NFPROTO_IPV6
	}
	var msgs []filterMessage
	add := func(kind uint16, fill func(ae func(attr uint16, value string))) error {
		ae := newAttrs()
		fill(ae.String)
		attrs, err := ae.Encode()
		msgs = append(msgs, filterMessage{kind: unix.NFNL_SUBSYS_NFTABLES<<8 | kind, family: number, attrs: attrs, what: "look for table " + table})
		return err
	}
	if len(chains) == 0 {
		err = add(unix.NFT_MSG_GETTABLE, func(put func(uint16, string)) { put(unix.NFTA_TABLE_NAME, table) })
	}
	for _, chain := range chains {
		err = errors.Join(err, add(unix.NFT_MSG_GETCHAIN, func(put func(uint16, string)) {
			put(unix.NFTA_CHAIN_TABLE, table)
			put(unix.NFTA_CHAIN_NAME, chain)
		}))
	}
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	results, err := r.conn.ask(ctx, msgs, func(int, []byte) error { return nil })
	if err != nil {
		return false, err
	}
	var errs []error
	for _, err := range results {
		switch {
		case err == nil:
			return true, nil
		case !errors.Is(err, unix.ENOENT) && !lacksNFTables(err):
			errs = append(errs, err)
		}
	}
	return false, errors.Join(errs...)
}
