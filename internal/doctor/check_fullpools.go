package doctor

import (
	"io/fs"
	"math/big"
	"net/netip"
	"path"

	"github.com/cleat-cni/cleat/netstate"
)

// fullPools looks how many addresses are left.
func fullPools() Check {
	return Check{
		Name: "full-pools", Looks: "how many addresses of each set of ranges are free",
		Why:   "Without a free address the next pod fails.",
		Mend:  "cleat gc frees addresses of pods that are gone; add a range to the set",
		Good:  "every network has free addresses",
		Needs: ofState,
		find: func(f *Facts) []Result {
			var all []Result
			for _, s := range f.Steps {
				pool := s.Allocation.Pool
				taken := f.taken(pool)
				for _, set := range pool.Sets {
					size, used := capacity(set), 0
					for _, a := range taken {
						if inSet(set, a) {
							used++
						}
					}
					switch {
					case used >= size:
						all = append(all, failed("the network %s has no free address of %s: %d are taken", s.Network, set[0].Subnet, used))
					case used*10 >= size*9:
						all = append(all, warning("the network %s has %d free addresses of %s: %d are taken", s.Network, size-used, set[0].Subnet, used))
					}
				}
			}
			return all
		},
	}
}

// taken are the addresses that the files of a pool say are taken.
func (f *Facts) taken(p netstate.Pool) []netip.Addr {
	files, err := fs.ReadDir(f.FS, inRoot(path.Join(p.Dir, p.Network)))
	if err != nil {
		return nil
	}
	var all []netip.Addr
	for _, file := range files {
		if a, err := netip.ParseAddr(file.Name()); err == nil {
			all = append(all, a)
		}
	}
	return all
}

func inSet(set []netstate.Range, a netip.Addr) bool {
	for _, r := range set {
		if r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0 {
			return true
		}
	}
	return false
}

// capacity is how many addresses a set gives; a million stands for more.
func capacity(set []netstate.Range) int {
	const most = 1000000
	n := 0
	for _, r := range set {
		first, last := new(big.Int).SetBytes(r.Start.AsSlice()), new(big.Int).SetBytes(r.End.AsSlice())
		count := last.Sub(last, first)
		if !count.IsInt64() || count.Int64() > most {
			return most
		}
		n += int(count.Int64()) + 1
		if r.Start.Compare(r.Gateway) <= 0 && r.Gateway.Compare(r.End) <= 0 {
			n--
		}
	}
	return min(n, most)
}
