package native

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/agenttest"
)

// TestContract holds the runtime to what the one in memory keeps, too.
func TestContract(t *testing.T) {
	n := newNode(t)
	t.Cleanup(func() { // what the collector does with pods that are gone
		entries, err := os.ReadDir(filepath.Join(n.root, "pods"))
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			name := strings.TrimPrefix(e.Name(), "contract-")
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(e.Name())}}
			if err := n.RemovePod(context.WithoutCancel(t.Context()), pod); err != nil {
				t.Error(err)
			}
		}
	})
	agenttest.Contract(t, n.Runtime)
}
