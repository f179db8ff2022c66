package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// parsePublish reads a published port, [hostIP:]host:container[/proto]. An IPv6 hostIP stands
// in brackets; proto is tcp (the default), udp or sctp.
func parsePublish(s string) (cni.PortMapping, error) {
	m, err := splitPublish(s)
	if err != nil {
		return cni.PortMapping{}, fmt.Errorf("publish %q: %w", s, err)
	}
	return m, nil
}

func splitPublish(s string) (cni.PortMapping, error) {
	m := cni.PortMapping{Protocol: "tcp"}
	ports, proto, found := strings.Cut(s, "/")
	if found {
		m.Protocol = strings.ToLower(proto)
	}
	switch m.Protocol {
	case "tcp", "udp", "sctp":
	default:
		return m, fmt.Errorf("protocol %q is not tcp, udp or sctp", proto)
	}
	ip, ports, err := splitHostIP(ports)
	if err != nil {
		return m, err
	}
	m.HostIP = ip
	host, container, found := strings.Cut(ports, ":")
	if !found {
		return m, errors.New("the container's port is missing: write host:container, as in 8080:80")
	}
	if m.HostPort, err = parsePort(host); err != nil {
		return m, fmt.Errorf("host port %w", err)
	}
	if m.ContainerPort, err = parsePort(container); err != nil {
		return m, fmt.Errorf("container port %w", err)
	}
	return m, nil
}

// splitHostIP takes the address off the front of s, if there is one.
func splitHostIP(s string) (ip, rest string, err error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		text, after, closed := strings.Cut(inner, "]")
		after, colon := strings.CutPrefix(after, ":")
		if !closed || !colon {
			return "", "", errors.New("an IPv6 address is written [address]:host:container")
		}
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", "", fmt.Errorf("%q in brackets is not an IPv6 address", text)
		}
		return addr.String(), after, nil
	}
	switch strings.Count(s, ":") {
	case 0, 1:
		return "", s, nil
	case 2:
	default:
		return "", "", errors.New("too many colons: an IPv6 address is written in brackets, [::1]:8080:80")
	}
	text, after, _ := strings.Cut(s, ":")
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is4() {
		return "", "", fmt.Errorf("host address %q is not an IPv4 address", text)
	}
	return addr.String(), after, nil
}

func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a number from 1 to 65535", s)
	}
	return int(n), nil
}
