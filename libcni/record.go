package libcni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
)

// recordKind tells records from other files; the field's Go library has the name.
const recordKind = "cniCacheV1"

// key says which attachment a record is of.
type key struct{ network, containerID, ifName string }

func (k key) String() string { return k.network + "/" + k.containerID + "/" + k.ifName }

// record is what is remembered of an attachment. An intent is a record without a result.
type record struct {
	key
	netns  string
	args   cni.Args
	caps   map[string]json.RawMessage
	config []byte          // the network's configuration as it was read
	result json.RawMessage // of the last plugin, as it wrote it; nil in an intent
	added  time.Time       // when ADD began; zero if another library wrote the record
	done   time.Time       // when its last plugin had run; zero in an intent, and if another library wrote the record
	bootID string
	cookie uint64          // of the namespace; 0 is unknown
	list   json.RawMessage // the list as it was run; nil if another library wrote the record
	schema int             // of the state that belongs to it; 0 is 1, as of another library's
	legacy bool            // a bare result, as the first libraries wrote it: it says nothing but result
}

// wireRecord is the file's content. The members before Cleat are the field's.
type wireRecord struct {
	Kind           string                     `json:"kind"`
	ContainerID    string                     `json:"containerId"`
	Config         []byte                     `json:"config"`
	IfName         string                     `json:"ifName"`
	NetworkName    string                     `json:"networkName"`
	NetNS          string                     `json:"netns,omitempty"`
	Args           [][2]string                `json:"cniArgs,omitempty"`
	CapabilityArgs map[string]json.RawMessage `json:"capabilityArgs,omitempty"`
	Result         json.RawMessage            `json:"result,omitempty"`
	Cleat          *wireExtra                 `json:"cleat,omitempty"`
	Done           time.Time                  `json:"cleatDone,omitzero"` // beside the result, as it is known only then
}

// wireExtra is what only this library writes and reads.
type wireExtra struct {
	Added       time.Time       `json:"added"`
	BootID      string          `json:"bootId,omitempty"`
	NetNSCookie uint64          `json:"netnsCookie,string,omitempty"`
	Schema      int             `json:"schema,omitempty"`
	List        json.RawMessage `json:"list,omitempty"`
}

// encodeIntent gives what is written before the first plugin runs: the record up to its result, which is left open and ends with
// the file's first line break. So a file without one is of an ADD that had not begun.
func (r *record) encodeIntent() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // it would change the plugins' bytes
	err := enc.Encode(wireRecord{
		Kind: recordKind, ContainerID: r.containerID, Config: r.config, IfName: r.ifName, NetworkName: r.network,
		NetNS: r.netns, Args: r.args, CapabilityArgs: r.caps,
		Cleat: &wireExtra{Added: r.added, BootID: r.bootID, NetNSCookie: r.cookie, Schema: r.schema, List: r.list},
	})
	if err != nil {
		return nil, fmt.Errorf("encode record of %s: %w", r.key, err)
	}
	return append(bytes.TrimSuffix(buf.Bytes(), []byte("}\n")), '\n'), nil
}

// encodeResult gives what is appended to the intent to make it the record.
func (r *record) encodeResult() ([]byte, error) {
	buf := bytes.NewBufferString(`,"result":`)
	if err := json.Compact(buf, r.result); err != nil {
		return nil, fmt.Errorf("encode record of %s: %w", r.key, err)
	}
	done, err := json.Marshal(r.done)
	if err != nil {
		return nil, fmt.Errorf("encode record of %s: %w", r.key, err)
	}
	fmt.Fprintf(buf, ",\"cleatDone\":%s}\n", done)
	return buf.Bytes(), nil
}

// errNotBegun is the error for an intent that was not written to its end: no plugin ran after it.
var errNotBegun = errors.New("its ADD had not begun")

// decodeIntent reads an intent; one that already has its whole result is a record.
func decodeIntent(data []byte) (*record, error) {
	intent, result, begun := bytes.Cut(data, []byte("\n"))
	if !begun {
		return nil, errNotBegun
	}
	if len(result) > 0 {
		if r, err := decodeRecord(data); err == nil {
			return r, nil
		}
	}
	r, err := decodeRecord(append(bytes.Clone(intent), '}'))
	if err == nil && r.legacy {
		err = errors.New("not an intent")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// decodeRecord reads the content of a record or intent.
func decodeRecord(data []byte) (*record, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("empty file")
	}
	var w wireRecord
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, cni.Explain(data, err)
	}
	if w.Kind != recordKind {
		return decodeLegacy(data, w.Kind)
	}
	r := &record{
		key:   key{w.NetworkName, w.ContainerID, w.IfName},
		netns: w.NetNS, args: w.Args, caps: w.CapabilityArgs, config: w.Config, result: w.Result, done: w.Done,
	}
	if r.network == "" || r.containerID == "" || r.ifName == "" {
		return nil, errors.New("record doesn't name network, container and interface")
	}
	if isNull(r.result) {
		r.result = nil
	}
	if x := w.Cleat; x != nil {
		r.added, r.bootID, r.cookie, r.schema, r.list = x.Added, x.BootID, x.NetNSCookie, x.Schema, x.List
	}
	if isNull(r.list) {
		r.list = nil
	}
	return r, nil
}

// decodeLegacy reads a file that holds nothing but a result.
func decodeLegacy(data []byte, kind string) (*record, error) {
	if kind != "" {
		return nil, fmt.Errorf("record is of kind %q, not %s", kind, recordKind)
	}
	var marks struct {
		CNIVersion string          `json:"cniVersion"`
		IP4        json.RawMessage `json:"ip4"` // versions below 0.3.0 need not name themselves
		IP6        json.RawMessage `json:"ip6"`
	}
	if err := json.Unmarshal(data, &marks); err != nil {
		return nil, cni.Explain(data, err)
	}
	if marks.CNIVersion == "" && marks.IP4 == nil && marks.IP6 == nil {
		return nil, errors.New("neither a record nor a result")
	}
	if _, err := cni.DecodeResult(data, "0.1.0"); err != nil {
		return nil, err
	}
	if marks.CNIVersion == "" {
		obj, err := cni.ParseObject(data)
		if err != nil {
			return nil, err
		}
		obj.Set("cniVersion", quote("0.1.0"))
		data = obj.Bytes()
	}
	return &record{result: data, legacy: true}, nil
}

func isNull(raw json.RawMessage) bool { return strings.TrimSpace(string(raw)) == "null" }

// resultVersion is the cniVersion that a result names; "" for none.
func resultVersion(raw []byte) (string, error) {
	var v struct {
		CNIVersion string `json:"cniVersion"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", cni.Explain(raw, err)
	}
	return v.CNIVersion, nil
}

// resultAs is the recorded result in a version of the specification: as the plugin wrote it if it wrote that version.
func (r *record) resultAs(version string) (json.RawMessage, error) {
	if r.result == nil {
		return nil, nil
	}
	raw, _, err := convertResult(r.result, version)
	if err != nil {
		return nil, fmt.Errorf("recorded result of %s: %w", r.key, err)
	}
	return raw, nil
}

// convertResult returns a plugin's result in version, unchanged if it is of that version, and decoded. One that names no version is
// of the one asked for, and gets its name put in.
func convertResult(raw json.RawMessage, version string) (json.RawMessage, *cni.Result, error) {
	written, err := resultVersion(raw)
	if err != nil {
		return nil, nil, err
	}
	result, err := cni.DecodeResult(raw, version)
	if err != nil {
		return nil, nil, err
	}
	switch written {
	case version:
	case "":
		obj, err := cni.ParseObject(raw)
		if err != nil {
			return nil, nil, err
		}
		obj.Set("cniVersion", quote(version))
		raw = obj.Bytes()
	default:
		if raw, err = result.Encode(version); err != nil {
			return nil, nil, fmt.Errorf("convert result from version %s to %s: %w", written, version, err)
		}
		if result, err = cni.DecodeResult(raw, version); err != nil {
			return nil, nil, fmt.Errorf("convert result from version %s to %s: %w", written, version, err)
		}
	}
	return raw, result, nil
}

// networkList is the list that the attachment went through.
func (r *record) networkList() (*NetworkConfigList, error) {
	data := []byte(r.list)
	if data == nil {
		data = r.config
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("record of %s holds no configuration", r.key)
	}
	list, err := ConfListFromBytes(data)
	if err != nil {
		return nil, fmt.Errorf("recorded configuration of %s: %w", r.key, err)
	}
	if len(list.Plugins) == 0 {
		return nil, fmt.Errorf("recorded configuration of %s has no plugins", r.key)
	}
	if list.Name != r.network {
		return nil, fmt.Errorf("recorded configuration of %s is of network %q", r.key, list.Name)
	}
	return list, nil
}

// capabilityArgs gives the values as raw JSON, which loses nothing.
func (r *record) capabilityArgs() map[string]any {
	if r.caps == nil {
		return nil
	}
	args := make(map[string]any, len(r.caps))
	for name, value := range r.caps {
		args[name] = value
	}
	return args
}
