package doctor

import (
	"io/fs"
	"path"
	"strings"
)

// networkManager looks whether NetworkManager leaves pods' interfaces alone.
func networkManager() Check {
	return Check{
		Name: "networkmanager", Looks: "unmanaged-devices of a NetworkManager that runs",
		Why: "It may take hold of bridges and of the ends of pods on the host, and give them addresses and routes of its own, " +
			"or none.",
		Mend: "write unmanaged-devices=interface-name:cni*;interface-name:veth* below [keyfile] into " +
			"/etc/NetworkManager/conf.d/cni.conf, and reload it",
		Good: "no NetworkManager is in the way",
		find: func(f *Facts) []Result {
			if !f.has("run/NetworkManager") || len(f.Networks) == 0 {
				return nil
			}
			for _, dir := range []string{"etc/NetworkManager/conf.d", "usr/lib/NetworkManager/conf.d", "run/NetworkManager/conf.d"} {
				files, err := fs.ReadDir(f.FS, dir)
				if err != nil {
					continue
				}
				for _, file := range files {
					if strings.Contains(f.text(path.Join(dir, file.Name())), "unmanaged-devices") {
						return nil
					}
				}
			}
			return []Result{warning("NetworkManager runs, and no file of its says which interfaces it leaves alone")}
		},
	}
}
