package planned

import (
	"encoding/json"
	"errors"

	"github.com/cleat-cni/cleat/cni"
)

// DecodeConfig stores a plugin's configuration in the struct that into points to, by its json tags. As in
// the field's Go plugins the case of keys doesn't matter and unknown keys are passed over. A value of
// another type than the field's is an error with code 7 that names the key. It names no place: what a plugin reads was put
// together by the runtime, and lines and columns in it would be those of no file.
func DecodeConfig(conf *cni.PluginConf, into any) error {
	data := conf.Raw.Bytes()
	err := json.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	err = cni.Explain(data, err)
	if fault, ok := errors.AsType[*cni.SyntaxError](err); ok {
		err = &cni.SyntaxError{Path: fault.Path, Msg: fault.Msg}
	}
	return cni.Errorf(cni.CodeInvalidConfig, "read %s configuration: %w", conf.Type, err)
}
