package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// iptExists reports whether a table of iptables may hold one of the chains, or if none is named whether it may be there at all. It
// starts no program: nf_tables is asked for the table or the chains that iptables-nft works on, and of the
// legacy ones the kernel tells the tables that are in use.
func (k *Kernel) iptExists(ctx context.Context, family, table string, chains []string) (bool, error) {
	if there, err := k.legacyExists(family, table); there || err != nil {
		return there, err
	}
	return k.nftExists(ctx, family, table, chains)
}

// legacyExists reports whether a table of the legacy iptables is in use.
func (k *Kernel) legacyExists(family, table string) (bool, error) {
	file := "ip_tables_names"
	if family == "ip6" {
		file = "ip6_tables_names"
	}
	var names []byte
	err := k.host.do(func() error {
		var err error
		names, err = readFile(filepath.Join(k.host.procNet(), file))
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("list tables of iptables: %w", err)
	}
	return strings.Contains("\n"+string(names), "\n"+table+"\n"), nil
}

// iptHolds reports whether rules that all attachments share are there, without a program: where only iptables-nft is in use nf_tables
// is asked for the rules of each chain. It is false where that can't be told.
func (k *Kernel) iptHolds(ctx context.Context, family string, want map[string]*iptWant) bool {
	for table, w := range want {
		private := func(r netstate.IptablesRule) bool { return !r.Owner.IsZero() }
		if len(w.chains) > 0 || slices.ContainsFunc(w.rules, private) {
			return false
		}
		if legacy, err := k.legacyExists(family, table); legacy || err != nil {
			return false
		}
		for _, r := range w.rules {
			if there, err := k.nftHolds(ctx, r); !there || err != nil {
				return false
			}
		}
	}
	return true
}

// nftHolds looks for a rule of iptables-nft by its comment, which stands in it as it is: as data of the match of that name, or as the
// rule's own.
func (k *Kernel) nftHolds(ctx context.Context, rule netstate.IptablesRule) (bool, error) {
	r, err := k.ruleset()
	if err != nil {
		return false, err
	}
	m, err := nftMessage(unix.NFT_MSG_GETRULE, iptFamilyNumber(rule.Family), "list rules of "+rule.Chain,
		func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.NFTA_RULE_TABLE, rule.Table)
			ae.String(unix.NFTA_RULE_CHAIN, rule.Chain)
			return nil
		})
	if err != nil {
		return false, err
	}
	m.flags = netlink.Dump
	comment := append([]byte(iptComment(rule, false)), 0)
	found := false
	r.mu.Lock()
	defer r.mu.Unlock()
	results, err := r.conn.ask(ctx, []filterMessage{m}, func(_ int, attrs []byte) error {
		found = found || bytes.Contains(attrs, comment)
		return nil
	})
	return found, errors.Join(append(results, err)...)
}

func iptFamilyNumber(family string) uint8 {
	if family == "ip6" {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
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
	number := iptFamilyNumber(family)
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
