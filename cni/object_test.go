package cni_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestObjectKeepsBytes(t *testing.T) {
	const in = `{"z":9007199254740993,"a":1e2,"t":"<&>\u00e9\/","m":{ "y" : [1 , 2], "x":{}},"e":1.50,"n":null}`
	o := parse(t, in)
	if diff := cmp.Diff(in, string(o.Bytes())); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

func TestObjectWhiteSpace(t *testing.T) {
	o := parse(t, " \r\n{ \"a\" :\t1 ,\r\n\"b\": [ ]\r\n}\r\n")
	if diff := cmp.Diff(`{"a":1,"b":[ ]}`, string(o.Bytes())); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

func TestObjectDoesNotKeepInput(t *testing.T) {
	data := []byte(`{"a":"one"}`)
	o, err := cni.ParseObject(data)
	if err != nil {
		t.Fatal(err)
	}
	copy(data, strings.Repeat("x", len(data)))
	if diff := cmp.Diff(`{"a":"one"}`, string(o.Bytes())); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

func TestObjectChange(t *testing.T) {
	tests := map[string]struct {
		do   func(o *cni.Object)
		want string
	}{
		"set-old":      {func(o *cni.Object) { o.Set("b", []byte("20")) }, `{"a":1,"b":20,"c":3}`},
		"set-new":      {func(o *cni.Object) { o.Set("d", []byte("4")) }, `{"a":1,"b":2,"c":3,"d":4}`},
		"set-nil":      {func(o *cni.Object) { o.Set("a", nil) }, `{"a":null,"b":2,"c":3}`},
		"delete":       {func(o *cni.Object) { o.Delete("b") }, `{"a":1,"c":3}`},
		"delete-gone":  {func(o *cni.Object) { o.Delete("x") }, `{"a":1,"b":2,"c":3}`},
		"odd-key":      {func(o *cni.Object) { o.Set("q\"\\\n<é", []byte("0")) }, `{"a":1,"b":2,"c":3,"q\"\\\n<é":0}`},
		"value-escape": {func(o *cni.Object) { check(t, o.SetValue("a", "<&>")) }, `{"a":"<&>","b":2,"c":3}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			original := parse(t, `{"a":1,"b":2,"c":3}`)
			changed := original.Clone()
			tt.do(changed)
			if diff := cmp.Diff(tt.want, string(changed.Bytes())); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(`{"a":1,"b":2,"c":3}`, string(original.Bytes())); diff != "" {
				t.Errorf("original of the clone (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObjectSetValueRefuses(t *testing.T) {
	o := parse(t, `{"a":1}`)
	if err := o.SetValue("a", func() {}); err == nil {
		t.Error("a function was encoded")
	}
	if diff := cmp.Diff(`{"a":1}`, string(o.Bytes())); diff != "" {
		t.Errorf("after the error (-want +got):\n%s", diff)
	}
}

func TestObjectZero(t *testing.T) {
	var o cni.Object
	if got := string(o.Bytes()); got != "{}" {
		t.Errorf("zero object = %s, want {}", got)
	}
	o.Set("a", []byte("1"))
	o.Delete("a")
	if _, ok := o.Get("a"); ok || len(o.Members()) != 0 {
		t.Error("a deleted member is there")
	}
}

func TestObjectDecode(t *testing.T) {
	o := parse(t, `{"s":"x","none":null,"list":[1,2]}`)
	var s string
	if ok, err := o.Decode("s", &s); !ok || err != nil || s != "x" {
		t.Errorf("s = %q, %v, %v", s, ok, err)
	}
	s = "kept"
	for _, key := range []string{"none", "missing"} {
		if ok, err := o.Decode(key, &s); ok || err != nil || s != "kept" {
			t.Errorf("%s = %q, %v, %v, want nothing", key, s, ok, err)
		}
	}
	o.Set("list", []byte(" [3]"))
	var list []int
	if _, err := o.Decode("list", &list); err != nil || len(list) != 1 {
		t.Errorf("list = %v, %v", list, err)
	}
}

func TestObjectDecodeWrongType(t *testing.T) {
	type rule struct {
		Port  uint16   `json:"port"`
		Names []string `json:"names"`
	}
	const in = "{\n \"a\": {\"rules\": [{\"port\": 1}, {\"port\": %s,\n  \"names\": %s}]},\n \"list\": [1, null]\n}"
	tests := map[string]struct{ port, names, want string }{
		"string":    {`"80"`, `[]`, `line 2, column 40: a.rules[1].port: want a whole number from 0 on, found a string`},
		"too-large": {`70000`, `[]`, `line 2, column 40: a.rules[1].port: want a whole number from 0 on, found 70000`},
		"negative":  {`-1`, `[]`, `line 2, column 40: a.rules[1].port: want a whole number from 0 on, found -1`},
		"fraction":  {`1.5`, `[]`, `line 2, column 40: a.rules[1].port: want a whole number from 0 on, found 1.5`},
		"object":    {`{"x":[1]}`, `[]`, `line 2, column 40: a.rules[1].port: want a whole number from 0 on, found an object`},
		"list":      {`[[1]]`, `[]`, `line 2, column 40: a.rules[1].port: want a whole number from 0 on, found a list`},
		"bool":      {`true`, `[]`, `line 2, column 40: a.rules[1].port: want a whole number from 0 on, found true`},
		"deep":      {`1`, `["x", {}]`, `line 3, column 18: a.rules[1].names[1]: want a string, found an object`},
		"no-list":   {`1`, `"x"`, `line 3, column 12: a.rules[1].names: want a list, found a string`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := parse(t, fmt.Sprintf(in, tt.port, tt.names))
			var into struct {
				Rules []rule `json:"rules"`
			}
			_, err := o.Decode("a", &into)
			wantError(t, err, cni.CodeInvalidConfig, tt.want)
		})
	}
	var list []int
	_, err := parse(t, fmt.Sprintf(in, "1", "[]")).Decode("list", &list)
	wantError(t, err, cni.CodeInvalidConfig, "line 4, column 14: list[1]: null is not allowed in a list: remove it")
}

func TestObjectDecodeKeepsCause(t *testing.T) {
	o := parse(t, `{"v":"x"}`)
	var v refusing
	_, err := o.Decode("v", &v)
	if !errors.Is(err, errRefused) {
		t.Errorf("error %v does not hold the cause", err)
	}
	wantError(t, err, cni.CodeInvalidConfig, "line 1, column 6: v: refused")
}

// A value that was set later has a path, but no place in a text.
func TestObjectDecodeSetValue(t *testing.T) {
	o := parse(t, `{"v":"x"}`)
	o.Set("v", []byte("5"))
	var v string
	_, err := o.Decode("v", &v)
	wantError(t, err, cni.CodeInvalidConfig, "v: want a string, found a number")
}

// The fault names what Go type was wanted in the words of JSON.
func TestObjectDecodeWanted(t *testing.T) {
	o := parse(t, `{"v":{"a":1}}`)
	for want, into := range map[string]any{
		"a string": new(netip.Addr), "true or false": new(bool), "a number": new(float64), "a list": new([2]int), "a whole number": new(*int),
	} {
		_, err := o.Decode("v", into)
		wantError(t, err, cni.CodeInvalidConfig, "line 1, column 6: v: want "+want+", found an object")
	}
	_, err := parse(t, `{"v":"x"}`).Decode("v", new(map[string]int))
	wantError(t, err, cni.CodeInvalidConfig, "line 1, column 6: v: want an object, found a string")
}

func TestObjectTwice(t *testing.T) {
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, `"k%d":0,`, i)
	}
	tests := map[string]struct{ in, want string }{
		"plain":   {"{\"a\":1,\n \"a\":2}", `line 2, column 2: the key "a" stands twice in this object: remove one; near: "a":2}`},
		"escaped": {`{"a":1,"\u0061":2}`, `line 1, column 8: the key "a" stands twice in this object: remove one; near: {"a":1,"\u0061":2}`},
		"many":    {`{` + many.String() + "\n\"k30\":1}", `line 2, column 1: the key "k30" stands twice in this object: remove one; near: "k30":1}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := cni.ParseObject([]byte(tt.in))
			wantError(t, err, cni.CodeDecode, tt.want)
		})
	}
}

var errRefused = errors.New("refused")

type refusing struct{}

func (*refusing) UnmarshalJSON([]byte) error { return errRefused }

func parse(t *testing.T, text string) *cni.Object {
	t.Helper()
	o, err := cni.ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return o
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, code cni.Code, text string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", text)
	}
	if diff := cmp.Diff(text, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if got := cni.CodeOf(err); got != code {
		t.Errorf("code %d, want %d", got, code)
	}
}
