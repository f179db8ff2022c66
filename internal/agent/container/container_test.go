package container

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHashContainer(t *testing.T) {
	base := v1.Container{Name: "web", Command: []string{"/bin/httpd"}, Env: []v1.EnvVar{{Name: "A", Value: "1"}}}
	with := func(change func(c *v1.Container)) *v1.Container {
		c := base.DeepCopy()
		change(c)
		return c
	}
	tests := []struct {
		name string
		c    *v1.Container
		same bool
	}{
		{"itself", with(func(*v1.Container) {}), true},
		{"resources", with(func(c *v1.Container) {
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
		}), true},
		{"command", with(func(c *v1.Container) { c.Command = []string{"/bin/nginx"} }), false},
		{"environment", with(func(c *v1.Container) { c.Env[0].Value = "2" }), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if same := HashContainer(tt.c) == HashContainer(&base); same != tt.same {
				t.Errorf("same hash: %v, want %v", same, tt.same)
			}
		})
	}
}

func TestFindContainerTakesTheNewest(t *testing.T) {
	s := PodStatus{Containers: []Status{{Name: "web", ID: "2"}, {Name: "web", ID: "1"}, {Name: "db", ID: "3"}}}
	if got := s.FindContainer("web"); got == nil || got.ID != "2" {
		t.Errorf("web: %+v, want number 2", got)
	}
	if got := s.FindContainer("none"); got != nil {
		t.Errorf("none: %+v", got)
	}
}
