package daemon

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/server"
	"github.com/cleat-cni/cleat/internal/nearmiss"
)

func (a *app) podsCmd() *cobra.Command {
	c := a.listCmd()
	c.Use, c.Aliases = "pods", []string{"pod"}
	c.Short = "Show the pods of the agent that runs here, and change them"
	c.Long = `Show the pods of the agent that runs here, and change them. Without a command it
lists them. A pod is named as NAME or NAMESPACE/NAME; the node's name at the end
of NAME may be left out. The agent is asked through the socket in --root, which
only root can open.`
	c.Example = `  cleat pods                                    what runs, as kubectl get pods -o wide shows it
  cleat pods describe web                       its conditions and events: why it does not run
  cleat pods apply -f examples/pods/web.yaml
  cleat pods exec web -- ip addr
  cleat pods bench -n 100`
	c.Args = func(c *cobra.Command, list []string) error {
		if len(list) == 0 {
			return nil
		}
		return &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "unknown command %q", list[0]).WithHint("%s",
			cmp.Or(nearmiss.Hint(list[0], commandNames(c)), "see "+c.CommandPath()+" --help"))}
	}
	c.AddCommand(a.listCmd(), a.describeCmd(), a.eventsCmd(), a.applyCmd(), a.deleteCmd(), a.logsCmd(), a.execCmd(), a.benchCmd())
	for _, one := range append(c.Commands(), c) {
		if one.Flags().Lookup("namespace") != nil {
			completeFlag(one, "namespace", a.completeNamespaces)
		}
		if one.ValidArgsFunction == nil {
			one.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	return c
}

func commandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// scope says of which namespaces pods are meant.
type scope struct {
	namespace string
	all       bool
}

const defaultNamespace = "default"

// oneFlags adds the flag of commands for single pods.
func (s *scope) oneFlags(c *cobra.Command) {
	c.Flags().StringVarP(&s.namespace, "namespace", "n", "", "namespace of pods that are named without one (default "+defaultNamespace+")")
}

// manyFlags adds the flags of commands for many.
func (s *scope) manyFlags(c *cobra.Command) {
	c.Flags().StringVarP(&s.namespace, "namespace", "n", "", "namespace (default "+defaultNamespace+")")
	c.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "pods of all namespaces")
}

func (s *scope) covers(namespace string) bool {
	return s.all || namespace == cmp.Or(s.namespace, defaultNamespace)
}

// check refuses flags that contradict each other.
func (s *scope) check() error {
	if s.all && s.namespace != "" {
		return &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "-n and -A exclude each other")}
	}
	return nil
}

// ref names a pod. The node's name may be left out at the end.
type ref struct{ namespace, name string }

func (r ref) String() string { return r.namespace + "/" + r.name }

// ref reads NAME or NAMESPACE/NAME.
func (s *scope) ref(arg string) (ref, error) {
	namespace, name, ok := strings.Cut(arg, "/")
	if !ok {
		namespace, name = cmp.Or(s.namespace, defaultNamespace), arg
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return ref{}, &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "%q is neither NAME nor NAMESPACE/NAME", arg)}
	}
	if s.namespace != "" && s.namespace != namespace {
		return ref{}, &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "-n %s and %s name two namespaces", s.namespace, arg)}
	}
	return ref{namespace, name}, nil
}

// short is a pod's name without the node's.
func short(pod *v1.Pod) string {
	return strings.TrimSuffix(pod.Name, "-"+strings.ToLower(pod.Spec.NodeName))
}

// named reports whether a pod is the one that r names.
func (r ref) named(pod *v1.Pod) bool {
	return pod.Namespace == r.namespace && (pod.Name == r.name || short(pod) == r.name)
}

// find asks the agent for a pod.
func (a *app) find(ctx context.Context, r ref) (*v1.Pod, error) {
	list, err := a.client().Pods(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list.Items, func(p v1.Pod) bool { return r.named(&p) }); i >= 0 {
		return &list.Items[i], nil
	}
	if events, err := a.client().Events(ctx, r.namespace, r.name); err == nil && len(events) > 0 {
		return nil, cni.Errorf(cni.CodeUnknownContainer, "no pod %s any more", r).WithHint("cleat pods events %s shows what happened to it", r)
	}
	problems, err := a.client().Problems(ctx)
	if err != nil {
		return nil, err
	}
	return nil, missing(r, list.Items, len(problems.Manifests))
}

// missing says that there is no such pod, and what may have been meant.
func missing(r ref, pods []v1.Pod, problems int) error {
	err := cni.Errorf(cni.CodeUnknownContainer, "no pod %s", r)
	var names []string
	for i := range pods {
		p := &pods[i]
		if p.Name == r.name || short(p) == r.name {
			return err.WithHint("there is one in namespace %s: %s/%s", p.Namespace, p.Namespace, short(p))
		}
		if p.Namespace == r.namespace {
			names = append(names, short(p))
		}
	}
	if hint := nearmiss.Hint(r.name, names); hint != "" {
		return err.WithHint("%s", hint)
	}
	if problems > 0 {
		return err.WithHint("some manifests are not read: see cleat pods describe")
	}
	return err
}

// explain adds to what the agent said of a pod that it doesn't know which one may have been meant.
func (a *app) explain(ctx context.Context, r ref, err error) error {
	if answer, ok := errors.AsType[*server.AnswerError](err); !ok || answer.Code != http.StatusNotFound {
		return err
	}
	if _, unknown := a.find(ctx, r); cni.CodeOf(unknown) == cni.CodeUnknownContainer {
		return unknown
	}
	return err // it is there: something of it is not
}
