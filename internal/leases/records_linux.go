package leases

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/ownfile"
)

// maxRecord is the size of the largest file that is read as a record, in bytes; the runtime's own limit.
const maxRecord = 16 << 20

// record is what is of use here of a runtime's record of an attachment, the file format cniCacheV1
// of the reference library.
type record struct {
	Kind        string `json:"kind"`
	Network     string `json:"networkName"`
	ContainerID string `json:"containerId"`
	IfName      string `json:"ifName"`
	NetNS       string `json:"netns"`
	Result      struct {
		IPs []recordIP `json:"ips"`
		// Before 0.3.0:
		IP4 recordIP `json:"ip4"`
		IP6 recordIP `json:"ip6"`
	} `json:"result"`
	// Cleat is what our runtime adds, an [origin].
	Cleat json.RawMessage `json:"cleat"`
}

// origin tells the namespace of an attachment from a later one at the same path, such as /proc/1234/ns/net.
type origin struct {
	BootID string `json:"bootId"`
	Cookie uint64 `json:"netnsCookie,string"` // 0 is unknown
}

type recordIP struct {
	Address string `json:"address"`
	IP      string `json:"ip"`
}

// addrs returns the addresses of the result, passing over what is none.
func (r record) addrs() []netip.Addr {
	var addrs []netip.Addr
	for _, ip := range append(r.Result.IPs, r.Result.IP4, r.Result.IP6) {
		for _, s := range []string{ip.Address, ip.IP} {
			if p, err := netip.ParsePrefix(s); err == nil {
				addrs = append(addrs, p.Addr())
			}
		}
	}
	return addrs
}

// parseRecord reads a record; what is none names no container.
func parseRecord(data []byte) (record, bool) {
	var r record
	if json.Unmarshal(data, &r) != nil || r.Kind != "cniCacheV1" || r.ContainerID == "" {
		return record{}, false
	}
	return r, true
}

// records are all records of a runtime.
type records []record

// readRecords reads <stateDir>/results. What can't be read is logged and passed over.
func readRecords(stateDir string, log *slog.Logger) records {
	path := filepath.Join(stateDir, "results")
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("records not read", "err", err)
	}
	var all records
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		data, err := ownfile.Read(filepath.Join(path, e.Name()), maxRecord)
		if err != nil {
			log.Warn("record not read", "err", err)
			continue
		}
		if r, ok := parseRecord(data); ok {
			all = append(all, r)
		}
	}
	return all
}

// alive reports whether a record of the container names a namespace that is there and, as far as the record tells, the one
// of then: of the boot bootID, unless that is not known, and with the same cookie.
func (rs records) alive(containerID, bootID string) bool {
	for _, r := range rs {
		if r.ContainerID == containerID && r.NetNS != "" && r.namespaceLives(bootID) {
			return true
		}
	}
	return false
}

func (r record) namespaceLives(bootID string) bool {
	var then origin
	if len(r.Cleat) > 0 && json.Unmarshal(r.Cleat, &then) != nil {
		then = origin{} // somebody else's key of the same name
	}
	if then.BootID != "" && bootID != "" && then.BootID != bootID {
		return false
	}
	ns, err := netns.Open(r.NetNS)
	if err != nil {
		return false
	}
	defer ns.Close()
	if then.Cookie == 0 {
		return true
	}
	// A namespace that can't be entered to ask may be the one.
	cookie, err := ns.Cookie()
	return err != nil || cookie == 0 || cookie == then.Cookie
}

// network returns the records of a network.
func (rs records) network(name string) records {
	var of records
	for _, r := range rs {
		if r.Network == name {
			of = append(of, r)
		}
	}
	return of
}
