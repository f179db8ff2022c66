package schema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// validator judges values by a JSON Schema, as far as the words go that are printed here. Another word is an error.
type validator struct{ defs map[string]any }

// validate returns what is wrong with a value; nothing is nil.
func (d validator) validate(schema map[string]any, value any, at string) error {
	for word, want := range schema {
		var err error
		switch word {
		case "$schema", "title", "description", "default", "deprecated", "$comment", "$defs", "format", "then":
		case "$ref":
			err = d.validate(d.defs[strings.TrimPrefix(want.(string), "#/$defs/")].(map[string]any), value, at)
		case "allOf":
			for _, one := range want.([]any) {
				if err = d.validate(one.(map[string]any), value, at); err != nil {
					return err
				}
			}
		case "if":
			if d.validate(want.(map[string]any), value, at) == nil {
				err = d.validate(schema["then"].(map[string]any), value, at)
			}
		default:
			err = d.word(word, schema, value, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d validator) word(word string, schema map[string]any, value any, at string) error {
	want, wrong := schema[word], fmt.Errorf("%s: %s %v: not %v", at, word, schema[word], value)
	ok := true
	switch value := value.(type) {
	case map[string]any:
		switch word {
		case "type":
			ok = want == "object"
		case "minProperties":
			ok = len(value) >= int(want.(float64))
		case "required":
			ok = !slices.ContainsFunc(want.([]any), func(key any) bool { _, has := value[key.(string)]; return !has })
		case "properties", "additionalProperties":
			return d.members(word, schema, value, at)
		case "minItems", "items", "minLength", "pattern", "enum", "const", "minimum", "maximum":
		default:
			return fmt.Errorf("the word %s is unknown", word)
		}
	case []any:
		switch word {
		case "type":
			ok = want == "array"
		case "minItems":
			ok = len(value) >= int(want.(float64))
		case "items":
			for i, item := range value {
				if err := d.validate(want.(map[string]any), item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		}
	case string:
		switch word {
		case "type":
			ok = want == "string"
		case "minLength":
			ok = utf8.RuneCountInString(value) >= int(want.(float64))
		case "pattern":
			ok = regexp.MustCompile(want.(string)).MatchString(value)
		case "enum":
			ok = slices.Contains(want.([]any), any(value))
		case "const":
			ok = want == value
		}
	case float64:
		switch word {
		case "type":
			ok = want == "number" || want == "integer" && value == float64(int64(value))
		case "minimum":
			ok = value >= want.(float64)
		case "maximum":
			ok = value <= want.(float64)
		}
	case bool:
		ok = word != "type" || want == "boolean"
	}
	if !ok {
		return wrong
	}
	return nil
}

func (d validator) members(word string, schema, value map[string]any, at string) error {
	known, _ := schema["properties"].(map[string]any)
	for key, inner := range value {
		of, isKnown := known[key].(map[string]any)
		switch {
		case isKnown && word == "properties":
		case isKnown || word == "properties":
			continue
		case schema[word] == false:
			return fmt.Errorf("%s: no key %q", at, key)
		default:
			of = schema[word].(map[string]any)
		}
		if err := d.validate(of, inner, at+"."+key); err != nil {
			return err
		}
	}
	return nil
}

// TestSchemaJudges validates the networks of all READMEs, and some that are wrong.
func TestSchemaJudges(t *testing.T) {
	doc, _ := book(t).Print("")
	var schema map[string]any
	if err := json.Unmarshal(doc, &schema); err != nil {
		t.Fatal(err)
	}
	judge := func(text string) error {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return validator{schema["$defs"].(map[string]any)}.validate(schema, value, "")
	}
	examples := 0
	files, err := filepath.Glob("../../plugins/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```json\n")[1:] {
			block, _, _ = strings.Cut(block, "\n```")
			examples++
			if err := judge(block); err != nil {
				t.Errorf("%s: %v\n%s", file, err, block)
			}
		}
	}
	if examples < 10 {
		t.Errorf("only %d examples were found", examples)
	}
	for name, plugin := range map[string]string{
		"unknown-key":        `{"type":"bridge","isGatway":true}`,
		"wrong-type":         `{"type":"bridge","mtu":"1500"}`,
		"out-of-bounds":      `{"type":"bridge","vlan":4095}`,
		"no-such-word":       `{"type":"firewall","ingressPolicy":"closed"}`,
		"bad-pattern":        `{"type":"tuning","mac":"zz"}`,
		"deep":               `{"type":"bridge","vlanTrunk":[{"id":0}]}`,
		"ipam-key":           `{"type":"ptp","ipam":{"type":"host-local","range":[]}}`,
		"ipam-required":      `{"type":"ptp","ipam":{"type":"static","addresses":[{"gateway":"10.1.0.1"}]}}`,
		"capability":         `{"type":"portmap","capabilities":{"snat":true}}`,
		"capability-no-bool": `{"type":"portmap","capabilities":{"portMappings":"true"}}`,
		"no-type":            `{"bridge":"cni0"}`,
		"foreign-no-type":    `{"type":""}`,
		"foreign-dns":        `{"type":"vendor","dns":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := judge(`{"cniVersion":"1.0.0","name":"n","plugins":[` + plugin + `]}`); err == nil {
				t.Error("the schema has nothing against it")
			}
		})
	}
	if err := judge(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"vendor","own":{"a":[1]},"ipam":{"type":"its","x":1}}]}`); err != nil {
		t.Errorf("a foreign plugin: %v", err)
	}
}
