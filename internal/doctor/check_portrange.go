package doctor

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// portRange looks whether published ports are also given to the host's own connections.
func portRange() Check {
	return Check{
		Name: "port-range", Looks: "ports of the host that are published, and net.ipv4.ip_local_port_range",
		Why: "The kernel takes the port of a connection that the host itself begins from that range. If it is one that is " +
			"published, answers to the host go to the pod instead, once in many thousand connections.",
		Mend:  "publish ports outside of the range, or name them in net.ipv4.ip_local_reserved_ports",
		Good:  "no published port lies in the range for the host's own connections",
		Needs: ofState,
		find: func(f *Facts) []Result {
			bounds := strings.Fields(f.sysctl("net/ipv4/ip_local_port_range"))
			if len(bounds) != 2 {
				return nil
			}
			low, err := strconv.Atoi(bounds[0])
			high, err2 := strconv.Atoi(bounds[1])
			if err != nil || err2 != nil {
				return nil
			}
			kept := strings.Split(f.sysctl("net/ipv4/ip_local_reserved_ports"), ",")
			var ports []string
			for _, a := range f.living() {
				for _, m := range published(a) {
					text := strconv.Itoa(m.HostPort)
					if m.HostPort >= low && m.HostPort <= high && !slices.Contains(kept, text) && !slices.Contains(ports, text) {
						ports = append(ports, text)
					}
				}
			}
			if len(ports) == 0 {
				return nil
			}
			return []Result{warning("published ports lie in the range for the host's own connections, %d to %d: "+
				"%s", low, high, strings.Join(ports, ", ")).
				with("sysctl -w net.ipv4.ip_local_reserved_ports=%s", strings.Join(ports, ","))}
		},
	}
}

// published are the ports that an attachment was asked to publish.
func published(a *libcni.NetworkAttachment) []cni.PortMapping {
	raw, ok := a.CapabilityArgs["portMappings"].(json.RawMessage)
	var list []cni.PortMapping
	if !ok || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}
