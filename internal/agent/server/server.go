// Package server is how one looks into a running agent: over a socket that only root can open, on which `cleat pods` talks to it, and, for
// health and metrics alone, over an address that is the loopback's unless told otherwise.
//
// Both have /healthz, /readyz, /pods and /metrics. Only the socket has what changes something or shows what pods say: manifests that
// are applied and deleted, events, logs, commands, and /debug/pprof. Client is the other side.
package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/metrics"
	"github.com/cleat-cni/cleat/internal/agent/status"
)

// Config configures a Server. All functions are called from several goroutines.
type Config struct {
	Socket    string       // required: path of the socket
	Listen    string       // an address for health and metrics; "" is none
	Manifests string       // required: the folder that pods are applied into
	Node      string       // required: the node's name, which ends the names of static pods
	Log       *slog.Logger // default slog.Default

	Pods     func() []v1.Pod                                                                                                  // required: with their status
	Changes  func() (version uint64, changed <-chan struct{})                                                                 // required: as [status.Manager.Changes]
	Events   func(types.UID) []status.Event                                                                                   // required: of a pod, or with "" of all
	Problems func() Problems                                                                                                  // required
	Healthy  func() error                                                                                                     // required
	Ready    func() error                                                                                                     // required
	Logs     func(ctx context.Context, uid types.UID, container string, previous bool) (path string, running bool, err error) // required
	Exec     func(ctx context.Context, uid types.UID, container string, command container.Command) (code int, err error)      // required
	Timings  func(since uint64) (list []metrics.Timing, next uint64, changed <-chan struct{})                                 // required: as [metrics.Metrics.Timings]
	Metrics  http.Handler                                                                                                     // required
}

// Problems is what is wrong, by the file that it is about.
type Problems struct {
	Manifests map[string]string `json:"manifests"` // that are not read
	Networks  map[string]string `json:"networks"`  // configurations that are not used as they are now, or whose network is not ready
}

// Server serves. Make one with New.
type Server struct {
	cfg  Config
	log  *slog.Logger
	list []net.Listener
}

// New listens, so that who starts the agent can tell at once whether it can.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, log: cmp.Or(cfg.Log, slog.Default())}
	// What is left of an agent that was killed; that no other one runs is known by then.
	if err := os.Remove(cfg.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen: %w", err)
	}
	socket, err := listenPrivately(cfg.Socket)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s.list = append(s.list, socket)
	if cfg.Listen == "" {
		return s, nil
	}
	tcp, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		socket.Close()
		return nil, &ListenError{cfg.Listen, err}
	}
	s.list = append(s.list, tcp)
	return s, nil
}

// ListenError says that the address of health and metrics can't be had.
type ListenError struct {
	Address string
	Err     error
}

func (e *ListenError) Error() string { return "listen: " + e.Err.Error() }

func (e *ListenError) Unwrap() error { return e.Err }

// listenPrivately makes the socket in a folder that only root can enter, so that there is no moment at which others could.
func listenPrivately(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Addr is the address of health and metrics; nil if there is none.
func (s *Server) Addr() net.Addr {
	if len(s.list) < 2 {
		return nil
	}
	return s.list[1].Addr()
}

// shutdownTimeout is how long requests have to end when the server does.
const shutdownTimeout = time.Second

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	handlers := []http.Handler{s.all(), s.public()}
	ended := make(chan error, len(s.list))
	var servers []*http.Server
	for i, l := range s.list {
		h := &http.Server{Handler: handlers[i], ReadHeaderTimeout: 10 * time.Second,
			BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
		servers = append(servers, h)
		go func() { ended <- h.Serve(l) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
		err = fmt.Errorf("serve: %w", err)
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, h := range servers {
		if h.Shutdown(stop) != nil { // something goes on, such as a log that is followed
			h.Close()
		}
	}
	return err
}

// public is what the loopback's address serves.
func (s *Server) public() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", verdict(s.cfg.Healthy))
	mux.HandleFunc("GET /readyz", verdict(s.cfg.Ready))
	mux.HandleFunc("GET /pods", s.pods)
	mux.Handle("GET /metrics", s.cfg.Metrics)
	return mux
}

// all is what the socket serves.
func (s *Server) all() *http.ServeMux {
	mux := s.public()
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /timings", s.timings)
	mux.HandleFunc("GET /problems", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.cfg.Problems()) })
	mux.HandleFunc("PUT /manifests", s.apply)
	mux.HandleFunc("DELETE /manifests/{namespace}/{name}", s.remove)
	mux.HandleFunc("GET /logs/{namespace}/{name}", s.logs)
	mux.HandleFunc("POST /exec/{namespace}/{name}", s.exec)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// verdict answers ok, or why not.
func verdict(of func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := of(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // whoever asked is gone
}

// refuse answers with an error in JSON.
func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure{Error: err.Error()}) // whoever asked is gone
}

type failure struct {
	Error string `json:"error"`
}

// pods answers with a PodList; with watch=true it goes on with another one whenever something has changed.
func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	watch := r.URL.Query().Get("watch") == "true"
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/json")
	for {
		_, changed := s.cfg.Changes()
		list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: s.cfg.Pods()}
		if list.Items == nil {
			list.Items = []v1.Pod{}
		}
		if err := json.NewEncoder(w).Encode(list); err != nil || !watch || out.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// timings answers with how long operations took, a line of JSON each, from the first that is still known; with watch=true, those that come
// from now on, of which an empty line says that it has begun.
func (s *Server) timings(w http.ResponseWriter, r *http.Request) {
	watch := r.URL.Query().Get("watch") == "true"
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/jsonl")
	list, next, changed := s.cfg.Timings(0)
	if watch {
		list = nil
		fmt.Fprintln(w)
	}
	for {
		for _, t := range list {
			if json.NewEncoder(w).Encode(t) != nil {
				return
			}
		}
		if !watch || out.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		list, next, changed = s.cfg.Timings(next)
	}
}

// find returns the pod that a request names, with or without the node's name at its end.
func (s *Server) find(namespace, name string) (*v1.Pod, error) {
	pods := s.cfg.Pods()
	for _, want := range []string{name, name + "-" + strings.ToLower(s.cfg.Node)} {
		for i := range pods {
			if pods[i].Namespace == namespace && pods[i].Name == want {
				return &pods[i], nil
			}
		}
	}
	return nil, fmt.Errorf("no pod %s/%s", namespace, name)
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if !q.Has("name") {
		answer(w, s.cfg.Events(""))
		return
	}
	pod, err := s.find(q.Get("namespace"), q.Get("name"))
	if err == nil {
		answer(w, s.cfg.Events(pod.UID))
		return
	}
	// Of one that is gone there may be some: how it ended.
	gone := slices.DeleteFunc(s.cfg.Events(""), func(e status.Event) bool {
		return e.Namespace != q.Get("namespace") || s.short(e.Name) != s.short(q.Get("name"))
	})
	if len(gone) == 0 {
		refuse(w, http.StatusNotFound, err)
		return
	}
	answer(w, gone)
}

// maxBody bounds what a request may say.
const maxBody = 10 << 20

// containerOf is the container of a name, or the first one of the pod.
func containerOf(pod *v1.Pod, name string) (string, error) {
	var names []string
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			if name == "" || c.Name == name {
				return c.Name, nil
			}
			names = append(names, c.Name)
		}
	}
	return "", fmt.Errorf("pod %s/%s has no container %q; it has %v", pod.Namespace, pod.Name, name, names)
}
