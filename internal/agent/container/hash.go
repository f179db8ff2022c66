package container

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
)

// HashContainer returns the hash that tells whether a container was started from this part of the spec, 16 hex digits: of the whole
// v1.Container but the resources, which don't restart it. A runtime keeps it with the container, and an agent that starts anew
// adopts what has the hash.
func HashContainer(c *v1.Container) string {
	part := c.DeepCopy()
	part.Resources = v1.ResourceRequirements{}
	raw, err := json.Marshal(part)
	if err != nil { // no value of the type does that
		panic(fmt.Errorf("hash container %s: %w", c.Name, err))
	}
	h := fnv.New64a()
	h.Write(raw)
	return fmt.Sprintf("%016x", h.Sum64())
}
