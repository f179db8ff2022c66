package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/cleat-cni/cleat/internal/agent/manifest"
	"github.com/cleat-cni/cleat/internal/atomicfile"
)

// Applied is what became of a pod that was applied.
type Applied struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"` // with the node's at its end, as it is listed
	File      string `json:"file"`
	Change    string `json:"change"` // created, changed or unchanged; deleted or ending already
}

// apply reads a manifest and writes each of its pods into a file of its own, from where it is taken like any other. The text is taken
// whole or not at all.
func (s *Server) apply(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, err)
		return
	}
	src := manifest.Source{Kind: manifest.File, Name: r.URL.Query().Get("file"), Node: s.cfg.Node}
	pods, err := manifest.Parse(src, text)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err)
		return
	}
	list := make([]Applied, 0, len(pods))
	for _, pod := range pods {
		a, err := s.write(pod, r.URL.Query().Get("dry-run") == "true")
		if err != nil {
			refuse(w, http.StatusConflict, err)
			return
		}
		list = append(list, a)
	}
	answer(w, list)
}

// write writes a pod as its manifest says it, before the defaults and the names that its source gives.
func (s *Server) write(pod *v1.Pod, dryRun bool) (Applied, error) {
	plain := &v1.Pod{TypeMeta: pod.TypeMeta}
	plain.APIVersion, plain.Kind = "v1", "Pod"
	plain.Name, plain.Namespace = s.short(pod.Name), pod.Namespace
	plain.Labels, plain.Annotations = pod.Labels, maps.Clone(pod.Annotations)
	maps.DeleteFunc(plain.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, "kubernetes.io/config.") })
	plain.Spec = pod.Spec
	plain.Spec.NodeName = "" // the node may be called something else later
	data, err := yaml.Marshal(plain)
	if err != nil {
		return Applied{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	a := Applied{Namespace: pod.Namespace, Name: pod.Name, File: s.file(pod.Namespace, plain.Name), Change: "created"}
	if err := s.free(pod, a.File); err != nil {
		return Applied{}, err
	}
	switch old, err := os.ReadFile(a.File); {
	case err == nil && string(old) == string(data):
		a.Change = "unchanged"
		return a, nil
	case err == nil:
		a.Change = "changed"
	case !errors.Is(err, fs.ErrNotExist):
		return Applied{}, err
	}
	if dryRun {
		return a, nil
	}
	if err := os.MkdirAll(s.cfg.Manifests, 0o700); err != nil {
		return Applied{}, err
	}
	return a, atomicfile.Write(a.File, data, 0o600)
}

// free returns an error if another source has a pod of the name: the one that is applied would be left out.
func (s *Server) free(pod *v1.Pod, file string) error {
	old, err := s.find(pod.Namespace, pod.Name)
	if err != nil || old.DeletionTimestamp != nil {
		return nil // there is none, or it is on its way out
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err // it was applied
	}
	return fmt.Errorf("pod %s/%s comes from a manifest: change it there", pod.Namespace, pod.Name)
}

// short is a static pod's name without the node's.
func (s *Server) short(name string) string {
	return strings.TrimSuffix(name, "-"+strings.ToLower(s.cfg.Node))
}

// file is the file of a pod that was applied. Neither part holds a slash or an underscore: they are names of Kubernetes.
func (s *Server) file(namespace, name string) string {
	return filepath.Join(s.cfg.Manifests, namespace+"_"+name+".yaml")
}

// remove takes the manifest of a pod away that was applied; others belong to whoever wrote them.
func (s *Server) remove(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	if strings.ContainsAny(namespace+name, "/_\x00") || namespace == "" || name == "" {
		refuse(w, http.StatusNotFound, fmt.Errorf("no pod %s/%s", namespace, name))
		return
	}
	file := s.file(namespace, s.short(name))
	remove := os.Remove
	if r.URL.Query().Get("dry-run") == "true" {
		remove = func(file string) error { _, err := os.Lstat(file); return err }
	}
	err := remove(file)
	switch {
	case err == nil:
		answer(w, Applied{Namespace: namespace, Name: name, File: file, Change: "deleted"})
	case !errors.Is(err, fs.ErrNotExist):
		refuse(w, http.StatusInternalServerError, err)
	default:
		pod, err := s.find(namespace, name)
		if err != nil {
			refuse(w, http.StatusNotFound, err)
			return
		}
		if pod.DeletionTimestamp != nil { // whoever asks twice gets what he wants
			answer(w, Applied{Namespace: namespace, Name: name, Change: "ending already"})
			return
		}
		refuse(w, http.StatusConflict, fmt.Errorf("pod %s/%s was not applied here: remove it from its manifest", namespace, name))
	}
}
