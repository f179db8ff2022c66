package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// Annotation is what a pod names more networks in, as the Network Plumbing Working Group's Multi-Net specification 1.2 has it.
const Annotation = "k8s.v1.cni.cncf.io/networks"

// Selection is a network that a pod wants beside the default one.
type Selection struct {
	Name   string
	IfName string   // default net1, net2, …
	IPs    []string // addresses, with or without a prefix length
	MAC    string
	Args   cni.Args // for its plugins
}

// ParseNetworks reads the annotation: names separated by commas, each with an interface behind an @ if one is wanted, or a JSON list
// of objects. Networks are configurations of the node here, not objects of a cluster: a namespace before a name is refused, and
// so is each member of an object that would have no effect.
func ParseNetworks(annotation string) ([]Selection, error) {
	text := strings.TrimSpace(annotation)
	if text == "" {
		return nil, nil
	}
	var list []Selection
	var err error
	if strings.HasPrefix(text, "[") {
		list, err = parseObjects(text)
	} else {
		list, err = parseNames(text)
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	for i := range list {
		if err := list[i].check(); err != nil {
			return nil, fmt.Errorf("annotation %s: network %d: %w", Annotation, i+1, err)
		}
	}
	return list, nil
}

func parseNames(text string) ([]Selection, error) {
	var list []Selection
	for item := range strings.SplitSeq(text, ",") {
		name, ifName, named := strings.Cut(strings.TrimSpace(item), "@")
		if named && ifName == "" {
			return nil, fmt.Errorf("%q: no interface behind the @", item)
		}
		if strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q: a network of this node has no namespace", item)
		}
		list = append(list, Selection{Name: name, IfName: ifName})
	}
	return list, nil
}

// element is an object of the list.
type element struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Interface string            `json:"interface"`
	IPs       []string          `json:"ips"`
	MAC       string            `json:"mac"`
	Args      map[string]string `json:"cni-args"`
}

func parseObjects(text string) ([]Selection, error) {
	var elements []element
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&elements); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("something stands behind the list")
	}
	list := make([]Selection, 0, len(elements))
	for _, e := range elements {
		if e.Namespace != "" {
			return nil, fmt.Errorf("%q: a network of this node has no namespace", e.Namespace+"/"+e.Name)
		}
		sel := Selection{Name: e.Name, IfName: e.Interface, IPs: e.IPs, MAC: e.MAC}
		for key, value := range e.Args {
			sel.Args = append(sel.Args, [2]string{key, value})
		}
		slices.SortFunc(sel.Args, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		list = append(list, sel)
	}
	return list, nil
}

func (s *Selection) check() error {
	if err := cni.CheckNetworkName(s.Name); err != nil {
		return err
	}
	if s.IfName != "" {
		if err := cni.CheckIfName(s.IfName); err != nil {
			return err
		}
	}
	if s.MAC != "" {
		if hw, err := net.ParseMAC(s.MAC); err != nil || len(hw) != 6 {
			return fmt.Errorf("mac %q is not one", s.MAC)
		}
	}
	for _, ip := range s.IPs {
		if _, err := netip.ParsePrefix(ip); err == nil {
			continue
		}
		if _, err := netip.ParseAddr(ip); err != nil {
			return fmt.Errorf("ip %q is no address", ip)
		}
	}
	for _, a := range s.Args {
		if strings.HasPrefix(a[0], "K8S_") || strings.ContainsAny(a[0]+a[1], ";=") {
			return fmt.Errorf("cni-args: %q can't be passed on", a[0])
		}
	}
	return nil
}
