package cni_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

// An object is read exactly if encoding/json reads it too and no rule beyond JSON forbids it, and
// what is read is written unchanged.
func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"b":[1e2,-0.5E-7,true,null,"\u00e9\ud83d\ude00"],"c":{"d":{}}}`, "\ufeff{}", `{"a":1,"a":2}`, `{"a":1,}`,
		`{'a':1}`, "{\n// c\n}", `{"a: 1}`, `{"a":"x`, `{"a":[1}`, `{"a" 1}`, "{\"a\":\"\xff\"}", `{"\u0061":1,"a":2}`, "[]", "", "{}{}", `{"a":01}`, "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := cni.ParseObject(data)
		if err != nil {
			checkPlace(t, data, err)
			if utf8.Valid(data) && plainObject(data) {
				t.Fatalf("a good object was refused: %v", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("invalid JSON was accepted")
		}
		again, err := cni.ParseObject(o.Bytes())
		if err != nil {
			t.Fatalf("what was written can't be read: %v\n%s", err, o.Bytes())
		}
		if diff := cmp.Diff(o.Members(), again.Members()); diff != "" {
			t.Fatalf("members (-want +got):\n%s", diff)
		}
		for _, m := range o.Members() {
			if !bytes.Contains(data, m.Value) {
				t.Fatalf("the value of %q was changed: %s", m.Key, m.Value)
			}
			var into struct{ X []struct{ Y uint8 } }
			if _, err := o.Decode(m.Key, &into); err != nil {
				checkPlace(t, data, err)
			}
		}
	})
}

// plainObject reports whether encoding/json finds one object in data, without a key that
// stands twice in it, and nested less than 1000 deep.
func plainObject(data []byte) bool {
	if !json.Valid(data) || bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > 1000 {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return false
	}
	seen := make(map[json.Token]bool)
	for dec.More() {
		key, err := dec.Token()
		var value json.RawMessage
		if err != nil || seen[key] || dec.Decode(&value) != nil {
			return false
		}
		seen[key] = true
	}
	return true
}

// A network that is read has only names and types that are safe as file names.
func FuzzParseNetwork(f *testing.F) {
	for _, seed := range []string{
		`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge","ipam":{"type":"host-local"}}]}`,
		`{"cniVersion":"0.1.0","name":"n","type":"bridge"}`, `{"cniVersion":"0.2.0","name":"n","type":"bridge","dns":{"search":["a"]}}`,
		`{"cniVersion":"0.3.0","name":"n","plugins":[{"type":"a"}]}`, `{"cniVersion":"0.3.1","name":"n","plugins":[{"type":"a","capabilities":{"mac":true}}]}`,
		`{"cniVersion":"0.4.0","name":"n","disableCheck":"True","plugins":[{"type":"a"}]}`,
		`{"cniVersion":"1.1.0","cniVersions":["1.0.0"],"name":"n","loadOnlyInlinedPlugins":true,"disableGC":true,"plugins":[{"type":"a"}]}`,
		`{"name":"n"}`, `{"name":"../x","plugins":[null]}`, `{"name":"n","plugins":[{"type":"../a"}]}`, `{"name":"n","plugins":[{"type":5}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := cni.ParseNetwork(data)
		if err != nil {
			checkPlace(t, data, err)
			return
		}
		check(t, cni.CheckNetworkName(n.Name))
		if _, err := cni.Negotiate(n.CNIVersion, n.CNIVersions); err != nil && cni.CodeOf(err) != cni.CodeIncompatibleVersion {
			t.Fatal(err)
		}
		for _, c := range n.Plugins {
			check(t, cni.CheckType(c.Type))
			if c.IPAMType != "" {
				check(t, cni.CheckType(c.IPAMType))
			}
			req := c.Request(n.Name, cni.Current, map[string]json.RawMessage{"mac": []byte(`"x"`)})
			again, err := cni.ParsePluginConf(req.Bytes())
			if err != nil {
				t.Fatalf("a request can't be read: %v\n%s", err, req.Bytes())
			}
			if again.Type != c.Type || again.Name != n.Name || len(again.Capabilities) != 0 {
				t.Fatalf("request %s", req.Bytes())
			}
		}
	})
}

// What is read as a result can be written in every version (but without an address not in the
// first ones), and read again it is the same.
func FuzzDecodeResult(f *testing.F) {
	for _, version := range cni.Versions() {
		f.Add([]byte(wire(version)))
		f.Add([]byte(`{"cniVersion":"` + version + `"}`))
	}
	for _, seed := range []string{`{"ips":[null]}`, `{"ips":[{"address":"::ffff:10.0.0.1/100","interface":-1}]}`, `{"dns":{"Search":["a"],"search":null}}`, `null`, "log\n{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := cni.DecodeResult(data, cni.Current)
		if err != nil {
			if fault, ok := errors.AsType[*cni.SyntaxError](err); ok {
				checkPlace(t, data, fault)
			}
			return
		}
		for _, version := range cni.Versions() {
			out, err := r.Encode(version)
			if err != nil {
				if len(r.IPs) == 0 && !cni.AtLeast(version, "0.3.0") {
					continue
				}
				t.Fatalf("encode as %s: %v", version, err)
			}
			again, err := cni.DecodeResult(out, "")
			if err != nil {
				t.Fatalf("decode %s: %v\n%s", version, err, out)
			}
			if twice, err := again.Encode(version); err != nil || !bytes.Equal(out, twice) {
				t.Fatalf("%s changed when it was passed on: %v\n%s\n%s", version, err, out, twice)
			}
		}
		if diff := cmp.Diff(r, r.Clone(), plain); diff != "" {
			t.Fatalf("clone (-want +got):\n%s", diff)
		}
	})
}

func FuzzParseArgs(f *testing.F) {
	for _, seed := range []string{"", "A=1;B=2", "IgnoreUnknown=1;K8S_POD_NAME=a;", "A=b=c", ";;", "=", "A"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, err := cni.ParseArgs(s)
		if err != nil {
			if cni.CodeOf(err) != cni.CodeInvalidEnvironment {
				t.Fatalf("code %d", cni.CodeOf(err))
			}
			return
		}
		again, err := cni.ParseArgs(args.String())
		if diff := cmp.Diff(args, again); err != nil || diff != "" {
			t.Fatalf("%v; (-want +got):\n%s", err, diff)
		}
		for _, pair := range args {
			if _, ok := args.Get(pair[0]); !ok {
				t.Fatalf("key %q is not found", pair[0])
			}
		}
	})
}

func FuzzError(f *testing.F) {
	for _, seed := range []string{
		`{"code":7,"msg":"m","details":"d"}`, `{"cniVersion":"1.1.0","code":11,"msg":"m","hint":"h","details":"h","plugin":"p","verb":"ADD","step":"s"}`,
		`{"code":"7"}`, `{"msg":null}`, `{"code":7,"details":{"a":1}}`, `{}`, `null`, `{"code":-1}`, `{"code":18446744073709551616}`,
		`{"code":100,"msg":"m","differences":[ {"object":"<x>"} ],"b":1e400}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e cni.Error
		if err := json.Unmarshal(data, &e); err != nil {
			return
		}
		out, err := json.Marshal(&e)
		check(t, err)
		var again cni.Error
		check(t, json.Unmarshal(out, &again))
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatalf("written and read again (-want +got):\n%s", diff)
		}
	})
}

func FuzzParseVersionInfo(f *testing.F) {
	for _, seed := range []string{
		`{"cniVersion":"0.2.0"}`, `{"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}`,
		`{"cniVersion":"1.0.0","supportedVersions":[null]}`, `{"supportedVersions":[]}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := cni.ParseVersionInfo(data)
		if err != nil {
			if cni.CodeOf(err) != cni.CodeDecode {
				t.Fatalf("code %d of %v", cni.CodeOf(err), err)
			}
			return
		}
		if info.CNIVersion == "" || len(info.Supported) == 0 {
			t.Fatalf("half an answer: %+v", info)
		}
	})
}

func FuzzCompare(f *testing.F) {
	for _, seed := range [][2]string{{"1.0.0", "1.1.0"}, {"", "0.1.0"}, {"1.1.0-rc.1", "1.1.0-rc.a+b"}, {"1", "01"}, {"1.0.0.0", "x"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ab, errAB := cni.Compare(a, b)
		ba, errBA := cni.Compare(b, a)
		if ab != -ba || (errAB == nil) != (errBA == nil) {
			t.Fatalf("%d, %v one way, %d, %v the other", ab, errAB, ba, errBA)
		}
	})
}

// checkPlace requires that a fault names a place that is in the text.
func checkPlace(t *testing.T, data []byte, err error) {
	t.Helper()
	fault, ok := errors.AsType[*cni.SyntaxError](err)
	if !ok {
		t.Fatalf("error %v is no syntax error", err)
	}
	lines := bytes.Split(data, []byte("\n"))
	if fault.Line < 1 || fault.Line > len(lines) || fault.Column < 1 || fault.Column > len(lines[fault.Line-1])+1 {
		t.Fatalf("line %d, column %d of %q is not in the text %q", fault.Line, fault.Column, err, data)
	}
	if fault.Msg == "" || !utf8.ValidString(fault.Error()) {
		t.Fatalf("message %q", fault.Error())
	}
}
