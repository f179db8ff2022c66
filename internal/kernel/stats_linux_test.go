package kernel

// Stats counts what a Kernel sent.
type Stats struct {
	Rtnetlink       uint64 // messages
	NftTransactions uint64
	NftMessages     uint64
}

// Stats returns what was sent so far.
func (k *Kernel) Stats() Stats {
	s := Stats{Rtnetlink: k.common.sent.Load()}
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	if k.rules != nil {
		s.NftTransactions, s.NftMessages = k.rules.stats()
	}
	return s
}

// Settle waits until the kernel has reclaimed what was deleted, so that it takes none of the time of what comes.
func (k *Kernel) Settle() { k.common.deletes.Wait() }
