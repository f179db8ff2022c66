package planned

import (
	"encoding/json"

	"github.com/cleat-cni/cleat/cni"
)

// DecodeConfig stores a plugin's configuration in the struct that into points to, by its json tags. As in
// the field's Go plugins the case of keys doesn't matter and unknown keys are passed over. A value of
// another type than the field's is an error with code 7 that names key and place.
func DecodeConfig(conf *cni.PluginConf, into any) error {
	data := conf.Raw.Bytes()
	if err := json.Unmarshal(data, into); err != nil {
		return cni.Errorf(cni.CodeInvalidConfig, "read %s configuration: %w", conf.Type, cni.Explain(data, err))
	}
	return nil
}
