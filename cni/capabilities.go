package cni

import "net/netip"

// PortMapping is an element of the portMappings capability.
type PortMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"` // tcp, udp or sctp; any case; "" is tcp
	HostIP        string `json:"hostIP,omitempty"`
}

// IPRange is an element of a range set of the ipRanges capability.
type IPRange struct {
	Subnet     netip.Prefix `json:"subnet"`
	RangeStart netip.Addr   `json:"rangeStart,omitzero"`
	RangeEnd   netip.Addr   `json:"rangeEnd,omitzero"`
	Gateway    netip.Addr   `json:"gateway,omitzero"`
}

// Bandwidth is the bandwidth capability: rates in bits a second, bursts in bits.
type Bandwidth struct {
	IngressRate  uint64 `json:"ingressRate,omitempty" doc:"what goes to the pod, in bits a second; 0 is no limit"`
	IngressBurst uint64 `json:"ingressBurst,omitempty" doc:"how much of it may come at once, in bits"`
	EgressRate   uint64 `json:"egressRate,omitempty" doc:"what comes from the pod, in bits a second; 0 is no limit"`
	EgressBurst  uint64 `json:"egressBurst,omitempty" doc:"how much of it may come at once, in bits"`
}
