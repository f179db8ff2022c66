package doctor

// nfTables looks whether there is nftables.
func nfTables() Check {
	return Check{
		Name: "nftables", Looks: "whether the kernel has nf_tables",
		Why: "Masquerading, ports and filtering use nftables; without it they use the programs of iptables, which cost more " +
			"with every pod.",
		Mend:  "load nf_tables (modprobe nf_tables nft_chain_nat nft_fib_inet nft_masq), or use a kernel that has it",
		Good:  "the kernel has nf_tables",
		Needs: ofKernel,
		find: func(f *Facts) []Result {
			if !f.Kernel.NoNFTables {
				return nil
			}
			if f.program("iptables-restore") {
				return []Result{warning("the kernel has no nf_tables: iptables is used in its place")}
			}
			return []Result{failed("the kernel has no nf_tables, and there is no iptables-restore either: nothing can be " +
				"masqueraded, mapped or filtered")}
		},
	}
}

// program reports whether the machine has a program in one of the folders for such.
func (f *Facts) program(name string) bool {
	for _, dir := range []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"} {
		if f.has(dir + "/" + name) {
			return true
		}
	}
	return false
}
