package plugins_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/schema"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins"
)

// TestProfileKeysAreRead gives each key that a profile has a value of another type: the plugin has to refuse it by the key's
// name, so it does read the key.
func TestProfileKeysAreRead(t *testing.T) {
	for _, d := range plugins.All() {
		t.Run(d.Info.Type, func(t *testing.T) {
			for _, part := range []struct {
				of    any
				place string // what the key's value is put into; %s is the key with it
			}{{d.Profile.Conf, `%s`}, {d.Profile.Args, `"args":{"cni":{%s}}`}} {
				v, err := schema.Of(part.of)
				if err != nil {
					t.Fatal(err)
				}
				for _, bad := range badValues(v) {
					text := fmt.Sprintf(part.place, bad.text)
					switch {
					case d.IsIPAM() && part.place == `%s`:
						text = `"ipam":{"type":"` + d.Info.Type + `",` + text + `}`
					case d.IsIPAM():
						text += `,"ipam":{"ranges":[[{"subnet":"10.1.0.0/24"}]],"addresses":[{"address":"10.1.0.5/24"}]}`
					}
					if err := refuse(d, text); err == nil || !strings.Contains(err.Error(), bad.key) {
						t.Errorf("%s: the error is %v; want one that names %s", text, err, bad.key)
					}
				}
			}
		})
	}
}

// badValue is a key with a value that it can't have.
type badValue struct{ key, text string }

// badValues are those of the keys of an object, and of the keys inside them.
func badValues(v *schema.Value) []badValue {
	var all []badValue
	for _, k := range v.Keys {
		if k.Type == schema.Any {
			continue
		}
		wrong := `{"no":"such"}`
		if k.Type == schema.Object {
			wrong = `5`
		}
		all = append(all, badValue{k.Name, strconv.Quote(k.Name) + ":" + wrong})
		inner, open, end := &k.Value, "", ""
		for inner.Type == schema.List && inner.Items != nil {
			inner, open, end = inner.Items, open+"[", end+"]"
		}
		for _, bad := range badValues(inner) {
			all = append(all, badValue{bad.key, strconv.Quote(k.Name) + ":" + open + "{" + bad.text + "}" + end})
		}
	}
	return all
}

func refuse(d planned.Definition, text string) error {
	conf := `{"cniVersion":"1.1.0","name":"n","type":"` + d.Info.Type + `",` + text + `}`
	if d.IsIPAM() {
		conf = strings.Replace(conf, `"type":"`+d.Info.Type+`"`, `"type":"bridge"`, 1)
	}
	req, err := plugin.NewRequest(d.Info, plugin.Env{Command: "ADD", ContainerID: "c", NetNS: "/run/netns/c", IfName: "eth0"}, []byte(conf))
	if err != nil {
		return err
	}
	if d.IsIPAM() {
		_, err := d.Allocation(req)
		return err
	}
	_, err = d.Plan(planned.Input{Request: req}, func(netstate.Query) netstate.Facts { return netstate.Facts{} })
	return err
}

// TestProfileHasAllKeys wants every tag json in a plugin's code to be in its profile: no key is read that cleat lint would call unknown.
func TestProfileHasAllKeys(t *testing.T) {
	read := 0
	for _, d := range plugins.All() {
		known := map[string]bool{}
		for _, of := range []any{d.Profile.Conf, d.Profile.Args} {
			v, err := schema.Of(of)
			if err != nil {
				t.Fatal(err)
			}
			collect(v, known)
		}
		for _, name := range d.Profile.Capabilities {
			known[name] = true
		}
		folder := strings.ReplaceAll(d.Info.Type, "-", "")
		for _, key := range jsonTags(t, folder) {
			read++
			if !known[key] {
				t.Errorf("plugins/%s reads the key %q, which the profile doesn't have", folder, key)
			}
		}
	}
	if read < 40 {
		t.Errorf("only %d tags were found", read)
	}
}

// collect adds the names of all keys in v.
func collect(v *schema.Value, into map[string]bool) {
	for _, k := range v.Keys {
		into[k.Name] = true
		collect(&k.Value, into)
	}
	if v.Items != nil {
		collect(v.Items, into)
	}
}

// jsonTags are the names in the tags json of a folder's code.
func jsonTags(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("plugins/%s: %d files, error %v", folder, len(files), err)
	}
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			tag, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			if key != "" && !slices.Contains(names, key) {
				names = append(names, key)
			}
			return true
		})
	}
	return names
}
