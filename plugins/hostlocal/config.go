package hostlocal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/ipamconf"
	"github.com/cleat-cni/cleat/plugin"
)

// Config is the parsed configuration.
type Config struct {
	sets       [][]placed // one address is taken from each
	requested  []netip.Addr
	routes     []cni.Route
	resolvConf string // path, "" for none
	dataDir    string // absolute
}

// ipamConf is the ipam section as it is written. The embedded range is the old form of a single set.
type ipamConf struct {
	rangeConf  `schema:"deprecated=one range outside of ranges is an old form: write it into ranges"`
	Ranges     [][]*rangeConf    `json:"ranges" doc:"sets of ranges; each set gives one address"`
	Routes     []*ipamconf.Route `json:"routes" doc:"routes of the pod"`
	ResolvConf string            `json:"resolvConf" doc:"path of a resolv.conf whose content is the pod's DNS"`
	DataDir    string            `json:"dataDir" schema:"default=/var/lib/cni/networks" doc:"absolute path of the folder that keeps what is taken"`
}

type rangeConf struct {
	Subnet     string `json:"subnet" schema:"format=cidr" doc:"the network that the addresses lie in, with its prefix length"`
	RangeStart string `json:"rangeStart" schema:"format=ip" doc:"the first address that is given; without it the first of the network"`
	RangeEnd   string `json:"rangeEnd" schema:"format=ip" doc:"the last address that is given; without it the last of the network"`
	Gateway    string `json:"gateway" schema:"format=ip" doc:"the gateway; without it the first address of the network"`
}

// argsConf is what is read of args.cni.
type argsConf struct {
	IPs []string `json:"ips" doc:"addresses that are asked for"`
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

func parse(req *plugin.Request) (Config, error) {
	ipam, err := decode(req)
	if err != nil {
		return Config{}, err
	}
	c := Config{resolvConf: ipam.ResolvConf, dataDir: defaultDataDir}
	if ipam.DataDir != "" {
		if !filepath.IsAbs(ipam.DataDir) {
			return Config{}, invalid("ipam.dataDir: %q is not an absolute path", ipam.DataDir)
		}
		c.dataDir = filepath.Clean(ipam.DataDir)
	}
	sets, err := writtenSets(req, ipam)
	if err != nil {
		return Config{}, err
	}
	if c.sets, err = parseSets(sets); err != nil {
		return Config{}, err
	}
	if err := checkFamilies(c.sets, req.Conf.CNIVersion); err != nil {
		return Config{}, err
	}
	if c.routes, err = ipamconf.ParseRoutes(ipam.Routes); err != nil {
		return Config{}, err
	}
	// What is asked for matters to an ADD alone, and must not keep a DEL from freeing.
	if req.Verb == cni.VerbAdd {
		c.requested, err = requested(req)
	}
	return c, err
}

// decode reads the ipam section.
func decode(req *plugin.Request) (ipamConf, error) {
	var ipam ipamConf
	if !req.Conf.HasIPAM {
		return ipam, invalid("ipam is missing: host-local reads its ranges there").
			WithHint(`write "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}]]}`)
	}
	var nested struct {
		Ranges []json.RawMessage `json:"ranges"`
	}
	if _, err := req.Conf.Raw.Decode("ipam", &nested); err != nil {
		return ipam, err
	}
	for i, set := range nested.Ranges {
		if bytes.HasPrefix(set, []byte("{")) {
			return ipam, invalid("ipam.ranges[%d] is a range, but ranges is a list of sets of ranges, and each set gives an address", i).
				WithHint("put the ranges of one set in brackets: [[{…}, {…}]] for one address out of either range, [[{…}], [{…}]] for an address out of each")
		}
	}
	_, err := req.Conf.Raw.Decode("ipam", &ipam)
	return ipam, err
}

// oldForm is the path of the range that stands in the ipam section itself.
const oldForm = "ipam"

// writtenSet is a set as it is written and the path that names it.
type writtenSet struct {
	path   string
	ranges []*rangeConf
}

// writtenSets gives the sets in their order: those of the runtime, the one of the old form, ranges.
func writtenSets(req *plugin.Request, ipam ipamConf) ([]writtenSet, error) {
	var all []writtenSet
	var given [][]*rangeConf
	if _, err := req.Conf.RuntimeConfig("ipRanges", &given); err != nil {
		return nil, err
	}
	for i, set := range given {
		all = append(all, writtenSet{fmt.Sprintf("runtimeConfig.ipRanges[%d]", i), set})
	}
	old := ipam.rangeConf
	switch {
	case old.Subnet != "":
		all = append(all, writtenSet{oldForm, []*rangeConf{&old}})
	case old != rangeConf{}:
		return nil, invalid("ipam.subnet is missing: rangeStart, rangeEnd and gateway beside it say nothing without it").
			WithHint("put them into their range of ipam.ranges, or add ipam.subnet")
	}
	for i, set := range ipam.Ranges {
		all = append(all, writtenSet{fmt.Sprintf("ipam.ranges[%d]", i), set})
	}
	if len(all) == 0 {
		return nil, invalid("ipam.ranges: no range is given").
			WithHint(`write "ranges": [[{"subnet": "10.1.0.0/16"}]]`)
	}
	return all, nil
}

// requested reads the addresses that the ADD asks for.
func requested(req *plugin.Request) ([]netip.Addr, error) {
	wishes, _, err := ipamconf.Wishes(req)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, w := range wishes {
		a, err := parseRequestedAddr(w.Text)
		if err != nil {
			return nil, cni.Errorf(w.Code, "%s: %w", w.Path, err)
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// parseRequestedAddr reads an address with or without a prefix length. The length says nothing: the
// subnet's counts.
func parseRequestedAddr(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if p, perr := netip.ParsePrefix(text); perr == nil {
		a, err = p.Addr(), nil
	}
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not an address", text)
	}
	return a.Unmap(), nil
}
