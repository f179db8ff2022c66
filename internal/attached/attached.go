// Package attached reads what a chained plugin needs of the result of the plugins before it: the addresses of the
// pod's interface, the interfaces on the host that lead to it, and what proves that the attachment lives.
package attached

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// IPs returns the addresses of the interface in the pod. One that names no interface is taken to be the pod's. Without a result
// there are none.
func IPs(prev *cni.Result, ifName string) []cni.IP {
	if prev == nil {
		return nil
	}
	var all []cni.IP
	for _, ip := range prev.IPs {
		if i := ip.Interface; i.Set && i.Value >= 0 && i.Value < len(prev.Interfaces) {
			if dev := prev.Interfaces[i.Value]; dev.Name != ifName || dev.Sandbox == "" {
				continue
			}
		}
		all = append(all, ip)
	}
	return all
}

// Addresses returns the addresses of [IPs], each with its subnet's length.
func Addresses(prev *cni.Result, ifName string) []netip.Prefix {
	var all []netip.Prefix
	for _, ip := range IPs(prev, ifName) {
		all = append(all, ip.Address)
	}
	return all
}

// shaper is what names of bandwidth's interfaces begin with.
const shaper = "bwp"

// HostInterfaces returns the names of the interfaces on the host, in the result's order: a plugin lists a bridge before
// its port. Passed over are a name that no interface can have, as one with a line break, which would become another rule, and what the
// plugin bandwidth, ours and the reference's, puts beside the pod's: CHECK and DEL get that in their result also where it
// comes later in the list. Without a result there are none.
func HostInterfaces(prev *cni.Result) []string {
	if prev == nil {
		return nil
	}
	var names []string
	for _, dev := range prev.Interfaces {
		if dev.Sandbox == "" && cni.CheckIfName(dev.Name) == nil && !strings.HasPrefix(dev.Name, shaper) {
			names = append(names, dev.Name)
		}
	}
	return names
}

// Lives names what lives as long as the attachment, as netstate.Element has it: its veth on the host, or its namespace.
func Lives(prev *cni.Result, netns string) string {
	for _, name := range HostInterfaces(prev) {
		if strings.HasPrefix(name, "veth") {
			return "link " + name
		}
	}
	return "netns " + netns
}

// TowardPod picks, of the interfaces on the host, those that the host reaches the pod by: the first, and a bridge's
// VLAN interface, which is named after it.
func TowardPod(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	picked := names[:1:1]
	for _, name := range names[1:] {
		id, ok := strings.CutPrefix(name, names[0]+".")
		if _, err := strconv.Atoi(id); ok && err == nil {
			picked = append(picked, name)
		}
	}
	return picked
}
