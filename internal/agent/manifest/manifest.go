// Package manifest turns what a source of pods hands over, YAML or JSON, into pods: it reads the text strictly, refuses by name what
// the agent doesn't implement, and applies the defaults of the kubelet and of the API server. It is pure: no file, no clock.
//
// A text is taken whole or not at all, so that a file with one broken document changes nothing. Each thing wrong with it is a [Fault]
// with file, line and field. The fields that a manifest may set are a list, see [Fields]; everything beside it is refused.
package manifest

import (
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
)

// Kind is the kind of a source.
type Kind string

// The kinds of sources; they are also the values of the annotation kubernetes.io/config.source.
const (
	File Kind = "file"
	HTTP Kind = "http"
)

// Source is where a text comes from. All fields are required.
type Source struct {
	Kind Kind
	Name string // path of the file, or the URL
	Node string // the node that the pods run on
}

// MaxBytes returns how long a text of the source may be: 1 MiB for a file, which a person writes, and 10 MiB, as the kubelet takes,
// for an answer, which holds all pods of the node.
func (s Source) MaxBytes() int {
	if s.Kind == HTTP {
		return 10 << 20
	}
	return 1 << 20
}

// Fault is one thing wrong with a manifest.
type Fault struct {
	File   string // path or URL
	Line   int    // 0 if it is of no line
	Pod    string // its name as the manifest has it, if it has one
	Field  string // as in spec.containers[0].image
	Reason string
}

// Error returns the fault as file:line: pod: field: reason, without what isn't known.
func (f *Fault) Error() string {
	s := f.File
	if f.Line > 0 {
		s += ":" + strconv.Itoa(f.Line)
	}
	if f.Pod != "" {
		s += ": pod " + f.Pod
	}
	if f.Field != "" {
		s += ": " + f.Field
	}
	if s != "" {
		s += ": "
	}
	return s + f.Reason
}

// maxFaults is how many faults an error tells of.
const maxFaults = 10

// join makes an error of faults, nil of none.
func join(faults []*Fault) error {
	var list []error
	for i, f := range faults {
		if i == maxFaults {
			list = append(list, fmt.Errorf("and %d more", len(faults)-maxFaults))
			break
		}
		list = append(list, f)
	}
	return errors.Join(list...)
}

// Parse returns the pods of a text with all defaults: of documents of the kinds Pod, PodList and List, in the order in which they
// stand. The error holds a [Fault] for each thing wrong, ten at most; there are no pods then. A text without a pod is an error,
// unless it has an empty list: a file is empty for a moment when it is written anew.
func Parse(src Source, data []byte) ([]*v1.Pod, error) {
	r := &reader{src: src, names: map[string]int{}, uids: map[string]int{}, decoder: newDecoder(), support: newSupport()}
	docs, fault := split(data, src.MaxBytes())
	if fault != nil {
		fault.File = src.Name
		return nil, fault
	}
	for _, doc := range docs {
		r.document(doc)
	}
	if !r.found && len(r.faults) == 0 {
		r.fault(&Fault{Reason: "there is no pod in it"})
	}
	if len(r.faults) > 0 {
		return nil, join(r.faults)
	}
	return r.pods, nil
}

// reader collects the pods of a text and what is wrong with it.
type reader struct {
	src     Source
	pods    []*v1.Pod
	found   bool           // a pod or a list
	names   map[string]int // namespace/name -> line
	uids    map[string]int
	decoder *decoder
	support *support
	faults  []*Fault
}

func (r *reader) fault(f *Fault) {
	f.File = r.src.Name
	r.faults = append(r.faults, f)
}

// typeOf returns apiVersion and kind of a document.
func typeOf(n *yaml.Node) (version, kind string) {
	text := func(key string) string {
		if v := member(n, key); v != nil && v.Kind == yaml.ScalarNode && v.ShortTag() != nullTag {
			return v.Value
		}
		return ""
	}
	return text("apiVersion"), text("kind")
}

// document reads one document: a pod or a list of them.
func (r *reader) document(n *yaml.Node) {
	n = resolve(n)
	version, kind := typeOf(n)
	switch {
	case n.Kind != yaml.MappingNode:
		r.fault(&Fault{Line: n.Line, Reason: "want a Pod, PodList or List, got " + describe(n)})
	case version != "v1":
		r.fault(&Fault{Line: lineOf(n, "apiVersion"), Field: "apiVersion", Reason: fmt.Sprintf("want v1, got %q", version)})
	case kind == "Pod":
		r.pod(n)
	case kind == "PodList" || kind == "List":
		r.list(n)
	default:
		r.fault(&Fault{Line: lineOf(n, "kind"), Field: "kind", Reason: fmt.Sprintf("want Pod, PodList or List, got %q", kind)})
	}
}

// list reads a PodList or a List, whose items are pods. Those of a PodList need not say so.
func (r *reader) list(n *yaml.Node) {
	var head listHead
	if faults := r.decoder.decode(n, &head); len(faults) > 0 {
		for _, f := range faults {
			r.fault(f)
		}
		return
	}
	if head.Metadata.Continue != "" {
		r.fault(&Fault{Line: lineOf(n, "metadata.continue"), Field: "metadata.continue", Reason: "this is only the first page of a list"})
		return
	}
	r.found = true
	for i, item := range head.Items {
		field := fmt.Sprintf("items[%d]", i)
		if item.node.Kind != yaml.MappingNode {
			r.fault(&Fault{Line: item.node.Line, Field: field, Reason: "want a Pod, got " + describe(item.node)})
			continue
		}
		version, kind := typeOf(item.node)
		if bare := version == "" && kind == "" && head.Kind == "PodList"; !bare && (version != "v1" || kind != "Pod") {
			r.fault(&Fault{Line: item.node.Line, Field: field, Reason: fmt.Sprintf("want a v1 Pod, got apiVersion %q and kind %q", version, kind)})
			continue
		}
		r.pod(item.node)
	}
}

// pod reads one pod, gives it its defaults and judges it.
func (r *reader) pod(n *yaml.Node) {
	r.found = true
	pod := &v1.Pod{}
	faults := r.decoder.decode(n, pod)
	name := pod.Name // as the manifest has it: Defaults lengthens it
	if len(faults) == 0 {
		faults = r.support.refuse(pod)
		if pod.Spec.NodeName != "" && pod.Spec.NodeName != r.src.Node {
			faults = append(faults, &Fault{Field: "spec.nodeName", Reason: fmt.Sprintf("is %q, and this node is %q", pod.Spec.NodeName, r.src.Node)})
		}
	}
	if len(faults) == 0 {
		Defaults(pod, r.src)
		faults = append(validate(pod), r.twice(pod, n.Line)...)
	}
	for _, f := range faults {
		f.Pod = name
		if f.Line == 0 {
			f.Line = lineOf(n, f.Field)
		}
		r.fault(f)
	}
	r.pods = append(r.pods, pod)
}

// twice refuses a second pod of a name or a UID.
func (r *reader) twice(pod *v1.Pod, line int) []*Fault {
	var faults []*Fault
	check := func(seen map[string]int, field, value string) {
		if first, ok := seen[value]; ok {
			faults = append(faults, &Fault{Field: field, Reason: fmt.Sprintf("the pod at line %d has it too: %s", first, value)})
			return
		}
		seen[value] = line
	}
	check(r.names, "metadata.name", pod.Namespace+"/"+pod.Name)
	check(r.uids, "metadata.uid", string(pod.UID))
	return faults
}
