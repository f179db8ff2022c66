//go:build peers && linux

package peers_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// chain is bridge, portmap, firewall, bandwidth and tuning, as podman, nerdctl and nodes of Kubernetes run it.
type chain struct {
	name, bridge, subnet string
	backend              string // of masquerading and of ports; the reference's firewall has only iptables
	firewall             string // "" is the plugin's default
}

// conf is the list, with leases below dir, and what tuning keeps below /run, as by default.
func (c chain) conf(t *testing.T, dir string) []byte {
	t.Helper()
	firewall := map[string]any{"type": "firewall"}
	if c.firewall != "" {
		firewall["backend"] = c.firewall
	}
	tuned, err := os.MkdirTemp("/run/cleat", "tuning") // the reference makes one that it can't enter without being root
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tuned) })
	data, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "name": c.name, "plugins": []any{
		map[string]any{"type": "bridge", "bridge": c.bridge, "isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
			"ipMasq": true, "ipMasqBackend": c.backend, "mtu": 1500,
			"ipam": map[string]any{"type": "host-local", "dataDir": filepath.Join(dir, "leases"),
				"ranges": []any{[]any{map[string]any{"subnet": c.subnet}}}}},
		map[string]any{"type": "portmap", "backend": c.backend, "capabilities": map[string]bool{"portMappings": true}},
		firewall,
		map[string]any{"type": "bandwidth", "ingressRate": 80000000, "ingressBurst": 8000000, "egressRate": 40000000, "egressBurst": 8000000},
		map[string]any{"type": "tuning", "dataDir": tuned, "mtu": 1400, "txQLen": 500, "allmulti": true,
			"sysctl": map[string]string{"net.core.somaxconn": "500", "net.ipv4.conf.IFNAME.arp_filter": "1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// write writes the list into a folder of its own and returns the folder.
func (c chain) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "10-"+c.name+".conflist"), c.conf(t, t.TempDir()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
