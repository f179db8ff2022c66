package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/schema"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

var update = flag.Bool("update", false, "rewrite docs/schema and testdata")

type inner struct {
	ID *int `json:"id" schema:"required,min=1,max=4094" doc:"one"`
}

type old struct {
	Subnet string `json:"subnet" schema:"format=cidr"`
}

type all struct {
	old     `schema:"deprecated=write ranges"`
	Name    *string           `json:"name" schema:"default=cni0,format=ifname" doc:"its name"`
	On      bool              `json:"on" schema:"default=true"`
	N       uint32            `json:"n" schema:"default=13"`
	F       float64           `json:"f"`
	Word    string            `json:"word" schema:"enum=a|b,nonempty"`
	List    [][]*inner        `json:"list" schema:"nonempty"`
	Map     map[string]string `json:"map"`
	Raw     json.RawMessage   `json:"raw" schema:"type=object,nonempty"`
	Any     any               `json:"any"`
	Addr    netip.Addr        `json:"addr"`
	Prefix  netip.Prefix      `json:"prefix"`
	Skipped func()            `json:"-"`
}

func TestOf(t *testing.T) {
	v, err := schema.Of(all{})
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, v.JSON(), "", "  "); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/of.json", append(got.Bytes(), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/of.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), got.String()); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	if _, ok := v.Key("word"); !ok {
		t.Error("Key finds no word")
	}
	if _, ok := v.Key("Word"); ok {
		t.Error("Key finds Word")
	}
	if names := v.Names(); len(names) != 12 || names[0] != "subnet" {
		t.Errorf("Names = %q", names)
	}
	if v, err := schema.Of(nil); err != nil || v.Type != schema.Object {
		t.Errorf("Of(nil) = %v, %v; want an object without keys", v, err)
	}
}

func TestOfRefuses(t *testing.T) {
	for name, v := range map[string]any{
		"no-name": struct{ A int }{},
		"unknown-word": struct {
			A int `json:"a" schema:"big"`
		}{},
		"no-value": struct {
			A int `json:"a" schema:"min"`
		}{},
		"useless-value": struct {
			A int `json:"a" schema:"required=yes"`
		}{},
		"no-number": struct {
			A int `json:"a" schema:"max=x"`
		}{},
		"unknown-format": struct {
			A int `json:"a" schema:"format=x"`
		}{},
		"unknown-type": struct {
			A int `json:"a" schema:"type=int"`
		}{},
		"not-json": struct {
			A chan int `json:"a"`
		}{},
		"in-a-list": []func(){},
		"in-an-embedded": struct {
			inner `schema:"x"`
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := schema.Of(v); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestSaid(t *testing.T) {
	for _, typ := range []schema.Type{schema.Any, schema.Object, schema.List, schema.String, schema.Integer, schema.Number, schema.Boolean} {
		if typ.Said() == "" {
			t.Errorf("%q has no name", typ)
		}
	}
}

// TestGeneratedSchemas keeps docs/schema as it is made. -update rewrites it.
func TestGeneratedSchemas(t *testing.T) {
	b := book(t)
	dir := filepath.Join("..", "..", "docs", "schema")
	want := map[string]string{}
	for _, typ := range append([]string{""}, b.Types()...) {
		doc, ok := b.Print(typ)
		if !ok {
			t.Fatalf("no schema of %q", typ)
		}
		var text bytes.Buffer
		if err := json.Indent(&text, doc, "", "  "); err != nil {
			t.Fatal(err)
		}
		name := typ
		if name == "" {
			name = "network"
		}
		want[name+".json"] = text.String() + "\n"
	}
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	have := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		have[filepath.Base(file)] = string(text)
	}
	if diff := cmp.Diff(have, want); diff != "" {
		t.Errorf("docs/schema is not what is made now (go test ./internal/schema -update) (-have +want):\n%s", diff)
	}
}

func book(t *testing.T) *schema.Book {
	t.Helper()
	b, err := schema.NewBook(plugins.All())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBookHasAll wants a profile of each plugin.
func TestBookHasAll(t *testing.T) {
	b := book(t)
	for _, d := range plugins.All() {
		typ := d.Info.Type
		if !slices.Contains(b.Types(), typ) {
			t.Errorf("%s has no schema: its definition has no Profile.Conf", typ)
			continue
		}
		_, isPlugin := b.Plugin(typ)
		_, isIPAM := b.IPAM(typ)
		if isIPAM != d.IsIPAM() || isPlugin == d.IsIPAM() {
			t.Errorf("%s: is found as a plugin: %v, as an IPAM plugin: %v", typ, isPlugin, isIPAM)
		}
		if !d.IsIPAM() && !d.IsChained() && d.Profile.Makes == "" {
			t.Errorf("%s: the profile does not say which kind of interface it makes", typ)
		}
	}
	if _, ok := b.Print("no-such-plugin"); ok {
		t.Error("a schema of a plugin that there is not")
	}
}

func TestBookWithoutProfile(t *testing.T) {
	b, err := schema.NewBook([]planned.Definition{{}})
	if err != nil || len(b.Types()) != 0 {
		t.Errorf("types %q, error %v", b.Types(), err)
	}
	broken := planned.Definition{Profile: planned.Profile{Conf: struct{ A int }{}}}
	if _, err := schema.NewBook([]planned.Definition{broken}); err == nil {
		t.Error("no error for a struct without tags")
	}
	broken.Profile = planned.Profile{Conf: struct{}{}, Args: struct{ A int }{}}
	if _, err := schema.NewBook([]planned.Definition{broken}); err == nil {
		t.Error("no error for arguments without tags")
	}
}

// TestNetworkKeys holds the keys of a network and of any plugin against those that the specification's reader knows: a value of a type
// that none of them has is refused where the key is read.
func TestNetworkKeys(t *testing.T) {
	b := book(t)
	for _, k := range b.List().Keys {
		bad := `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"x"}]}`
		o, err := cni.ParseObject([]byte(bad))
		if err != nil {
			t.Fatal(err)
		}
		o.Set(k.Name, json.RawMessage(`{"a":[1]}`))
		if _, err := cni.ParseNetwork(o.Bytes()); err == nil {
			t.Errorf("the specification's reader does not read %s", k.Name)
		}
	}
}
