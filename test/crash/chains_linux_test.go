//go:build amd64 || arm64

package crash

import "fmt"

// chain is a network's plugins.
type chain struct {
	name    string
	request func(id string) request // what a container is added with
	plugins func(dataDir string) []map[string]any
}

func chains() []chain {
	published := func(id string) request { return request{ports: ports(id)} }
	return []chain{
		{name: "bridge", request: published, plugins: func(dataDir string) []map[string]any {
			return bridged(dataDir, "nftables")
		}},
		{name: "iptables", request: published, plugins: func(dataDir string) []map[string]any {
			return bridged(dataDir, "iptables")
		}},
		{name: "firewall", request: published, plugins: func(dataDir string) []map[string]any {
			return append(bridged(dataDir, "nftables"), map[string]any{"type": "firewall", "ingressPolicy": "isolated"})
		}},
		{name: "firewall-iptables", request: published, plugins: func(dataDir string) []map[string]any {
			return append(bridged(dataDir, "iptables"), map[string]any{"type": "firewall", "backend": "iptables", "ingressPolicy": "same-bridge"})
		}},
		{name: "ptp", request: published, plugins: func(dataDir string) []map[string]any {
			return []map[string]any{{"type": "ptp", "ipMasq": true, "ipam": hostLocal(dataDir)}, portmap("nftables")}
		}},
		{name: "bandwidth", request: published, plugins: func(dataDir string) []map[string]any {
			return append(bridged(dataDir, "nftables"), bandwidth())
		}},
		{name: "tuning", request: published, plugins: func(dataDir string) []map[string]any {
			return append(bridged(dataDir, "nftables"), tuning(dataDir))
		}},
		{name: "full", request: published, plugins: func(dataDir string) []map[string]any {
			firewall := map[string]any{"type": "firewall", "ingressPolicy": "isolated"}
			return append(bridged(dataDir, "nftables"), firewall, bandwidth(), tuning(dataDir))
		}},
		{name: "full-iptables", request: published, plugins: func(dataDir string) []map[string]any {
			firewall := map[string]any{"type": "firewall", "backend": "iptables", "ingressPolicy": "same-bridge"}
			return append(bridged(dataDir, "iptables"), firewall, bandwidth(), tuning(dataDir))
		}},
		{name: "static", request: func(id string) request {
			addrs := map[string]string{bystander: "10.99.0.2/24", subject: "10.99.0.3/24", successor: "10.99.0.4/24"}
			return request{ports: ports(id), addr: addrs[id]}
		}, plugins: func(string) []map[string]any {
			static := map[string]any{"type": "static", "routes": []any{map[string]any{"dst": "0.0.0.0/0"}}}
			return []map[string]any{{"type": "ptp", "capabilities": map[string]any{"ips": true}, "ipam": static}, portmap("nftables")}
		}},
	}
}

// request is what a container asks for.
type request struct {
	ports []port
	addr  string // with the length of its prefix; "" is any
}

// port is one that is published.
type port struct {
	Host      int    `json:"hostPort"`
	Container int    `json:"containerPort"`
	Protocol  string `json:"protocol"`
}

// ports are those of a container. The successor takes only the first of the subject's: for one of UDP the kernel's whole table of
// connections is looked through, which takes 10 ms, and the rules show as well that it is free.
func ports(id string) []port {
	all := []port{{8080, 80, "tcp"}, {8053, 53, "udp"}}
	switch id {
	case bystander:
		return nil
	case successor:
		return all[:1]
	}
	return all
}

// flags are the request for cleat.
func (r request) flags() []string {
	var list []string
	for _, p := range r.ports {
		list = append(list, "--publish", fmt.Sprintf("%d:%d/%s", p.Host, p.Container, p.Protocol))
	}
	if r.addr != "" {
		list = append(list, "--ip", r.addr)
	}
	return list
}

// capabilities are the request for the reference's runtime.
func (r request) capabilities() map[string]any {
	all := map[string]any{}
	if len(r.ports) > 0 {
		all["portMappings"] = r.ports
	}
	if r.addr != "" {
		all["ips"] = []string{r.addr}
	}
	return all
}

// bridged are a bridge with masquerade and leases, and published ports.
func bridged(dataDir, backend string) []map[string]any {
	return []map[string]any{{
		"type": "bridge", "bridge": "cni0", "ipMasq": true, "ipMasqBackend": backend, "isDefaultGateway": true, "ipam": hostLocal(dataDir),
	}, portmap(backend)}
}

func hostLocal(dataDir string) map[string]any {
	return map[string]any{
		"type": "host-local", "dataDir": dataDir, "routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
		"ranges": []any{[]any{map[string]any{"subnet": "10.99.0.0/24"}}},
	}
}

func portmap(backend string) map[string]any {
	return map[string]any{"type": "portmap", "backend": backend, "capabilities": map[string]any{"portMappings": true}}
}

func bandwidth() map[string]any {
	return map[string]any{"type": "bandwidth",
		"ingressRate": 80_000_000, "ingressBurst": 8_000_000, "egressRate": 80_000_000, "egressBurst": 8_000_000}
}

func tuning(dataDir string) map[string]any {
	return map[string]any{"type": "tuning", "dataDir": dataDir + "/tuning",
		"mtu": 1400, "promisc": true, "sysctl": map[string]string{"net.core.somaxconn": "500", "net.ipv4.conf.IFNAME.arp_filter": "1"}}
}
