package doctor

import (
	"io/fs"
	"net/netip"
	"path"
)

// emptyLeases looks for addresses that a file without a name takes.
func emptyLeases() Check {
	return Check{
		Name: "empty-leases", Looks: "files of taken addresses that say nobody's name",
		Why: "Another IPAM program, killed or out of space, left a file without content: the address is taken, and no DEL " +
			"ever frees it.",
		Mend:  "remove the file",
		Good:  "every address that is taken has an owner",
		Fixes: true, Needs: ofState,
		find: func(f *Facts) []Result {
			var all []Result
			for _, s := range f.Steps {
				pool := s.Allocation.Pool
				dir := path.Join(pool.Dir, pool.Network)
				if len(pool.Sets) == 0 {
					continue
				}
				files, err := fs.ReadDir(f.FS, inRoot(dir))
				if err != nil {
					continue
				}
				for _, file := range files {
					info, err := file.Info()
					if _, isAddr := netip.ParseAddr(file.Name()); isAddr == nil && err == nil && info.Mode().IsRegular() && info.Size() == 0 {
						all = append(all, warning("%s is empty: the address is nobody's", path.Join(dir, file.Name())).
							by(Remedy{Remove: path.Join(dir, file.Name())}))
					}
				}
			}
			return all
		},
	}
}
