package cni_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestSyntaxFaults(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"empty":             {"", "1:1 the text is empty"},
		"white-space":       {" \r\n\t", "1:1 the text is empty"},
		"nul-bytes":         {strings.Repeat("\x00", 100), "1:1 the text holds only NUL bytes, as after a power loss: write it again"},
		"nul-after":         {"{}\x00\x00", "1:3 NUL byte: remove it"},
		"bom":               {"\xef\xbb\xbf{}", "1:1 the text begins with a byte order mark: save it as UTF-8 without BOM"},
		"utf-16":            {"\xff\xfe{\x00}\x00", "1:1 the text is UTF-16: save it as UTF-8"},
		"latin-1":           {"{\n\"a\":\"\xe9\"}", "2:6 the byte 0xe9 is not UTF-8: save the text as UTF-8"},
		"trailing-object":   {"{\"a\":1,\r\n}", "1:7 trailing comma: remove the , before }"},
		"trailing-list":     {"{\"a\":[1,\n2,\n]}", "2:2 trailing comma: remove the , before ]"},
		"comma-first":       {`{,"a":1}`, "1:2 one comma too many: remove it"},
		"comma-twice":       {`{"a":1,,"b":1}`, "1:8 one comma too many: remove it"},
		"comma-twice-list":  {`{"a":[1,,2]}`, "1:9 a value is missing before ,"},
		"line-comment":      {"{\n  // the network\n  \"a\":1}", "2:3 comment: JSON has none, remove it"},
		"comment-after":     {"{\"a\":1 // one\n}", "1:8 comment: JSON has none, remove it"},
		"block-comment":     {`{"a":/* one */1}`, "1:6 comment: JSON has none, remove it"},
		"hash-comment":      {"# x\n{}", "1:1 comment: JSON has none, remove it"},
		"comment-at-end":    {"{}\n# x", "2:1 comment: JSON has none, remove it"},
		"single-quote-key":  {`{'a':1}`, `1:2 single quote: write "`},
		"single-quote":      {`{"a":'x'}`, `1:6 single quote: write "`},
		"typographic":       {"{\u201ca\u201d:1}", `1:2 typographic quote: write "`},
		"no-break-space":    {"{\u00a0\"a\":1}", "1:2 no-break space: write a plain space"},
		"unquoted-key":      {`{name:"x"}`, `1:2 key without quotes: write "name"`},
		"unquoted-value":    {`{"name":net1}`, `1:9 text without quotes: write "net1"`},
		"unquoted-address":  {`{"gw":10.1.0.1}`, `1:7 text without quotes: write "10.1.0.1"`},
		"capital-true":      {`{"a":True}`, "1:6 True: write true"},
		"none":              {`{"a":None}`, "1:6 None: write null"},
		"yes":               {`{"a":yes}`, "1:6 yes: write true"},
		"off":               {`{"a":off}`, "1:6 off: write false"},
		"no-colon":          {`{"a" 1}`, `1:6 1 after the key "a": write :`},
		"equals":            {`{"a"=1}`, `1:5 = after the key "a": write :`},
		"key-alone":         {`{"a"}`, `1:5 the key "a" has no value`},
		"value-missing":     {`{"a":}`, "1:6 a value is missing before }"},
		"value-missing-end": {`{"a":`, "1:6 the text ends where a value should stand"},
		"comma-missing":     {"{\"a\":1\n\"b\":2}", `2:1 a comma is missing before "`},
		"comma-missing-obj": {`{"a":[{} {}]}`, "1:10 a comma is missing before {"},
		"quote-missing-key": {"{\"name: \"x\"}", `1:2 a " is missing in or after "name: "`},
		"quote-missing":     {"{\"name\": \"x,\n\"a\":1}", `1:10 the string that begins here has no end on its line: add the missing "`},
		"quote-missing-end": {`{"name": "x}`, `1:10 the text ends inside the string that begins here: add the missing "`},
		"quote-too-many":    {`{"a":"x"y"}`, `1:9 a " is missing before or after y`},
		"tab-in-string":     {"{\"a\":\"x\ty\"}", `1:8 control character 0x09 in a string: write \u0009`},
		"nul-in-string":     {"{\"a\":\"x\x00\"}", `1:8 control character 0x00 in a string: write \u0000`},
		"backslash":         {`{"a":"C:\cni"}`, `1:9 a backslash in a string starts an escape: write \\ for the backslash itself`},
		"bad-unicode":       {`{"a":"\u12"}`, `1:7 \u needs four hexadecimal digits`},
		"bracket-missing":   {"{\n\"a\":[1,2", "2:9 the text ends inside the list that begins at line 2, column 5: add the missing ]"},
		"brace-missing":     {"{\"a\":1\n", "2:1 the text ends inside the object that begins at line 1, column 1: add the missing }"},
		"brace-only":        {"{", "1:2 the text ends inside the object that begins at line 1, column 1: add the missing }"},
		"wrong-bracket":     {`{"a":[1}}`, "1:8 } where ] should stand, which ends what begins at line 1, column 6"},
		"wrong-brace":       {`{"a":1]`, "1:7 ] where } should stand, which ends what begins at line 1, column 1"},
		"key-in-list":       {`{"a":["b":1]}`, "1:10 a key in the list that begins at line 1, column 6: put { and } around the element"},
		"brace-too-many":    {`{}}`, "1:3 one } too many: remove it"},
		"two-objects":       {"{}\n{}", "2:1 a second object after the end of the first: only one is allowed"},
		"log-after":         {"{}\nlevel=info", "2:1 text after the end of the value: level"},
		"log-before":        {"level=info\n{}", `1:1 text without quotes: write "level"`},
		"zeros":             {`{"a":007}`, "1:6 the number 007: leave out the zeros in front"},
		"plus":              {`{"a":+1}`, "1:6 the number +1: leave out the +"},
		"point-first":       {`{"a":.5}`, "1:6 the number .5: write a 0 before the point"},
		"point-last":        {`{"a":5.}`, "1:6 5. is no number in JSON"},
		"hex":               {`{"a":0x10}`, "1:6 the number 0x10: write it in decimal"},
		"minus":             {`{"a":-}`, "1:6 - without a number"},
		"exponent":          {`{"a":1e}`, "1:6 1e is no number in JSON"},
		"unit":              {`{"a":10M}`, "1:6 10M is no number in JSON"},
		"number-key":        {`{1:2}`, `1:2 key without quotes: write "1"`},
		"brace-as-key":      {`{{}}`, "1:2 { where a key in quotes should stand"},
		"comment-for-colon": {`{"a"/**/:1}`, "1:5 comment: JSON has none, remove it"},
		"control-character": {"{\x01}", "1:2 the byte 0x01 where a key in quotes should stand"},
		"colon-twice":       {`{"a"::1}`, "1:6 a value is missing before :"},
		"strange-next":      {`{"a":1;"b":2}`, "1:7 ; where a comma or } should stand"},
		"list-unfinished":   {`{"a":[`, "1:7 the text ends inside the list that begins at line 1, column 6: add the missing ]"},
		"strange":           {`{"a":@}`, "1:6 @ begins no value"},
		"not-an-object":     {`["a"]`, "1:1 want an object, which begins with {, found a list"},
		"null":              {` null`, "1:2 want an object, which begins with {, found null"},
		"too-deep":          {`{"a":` + strings.Repeat("[", 5000), "1:1005 more than 1000 objects and lists inside each other"},
		"too-long":          {`{"a":"` + strings.Repeat("x", 10_000_000) + `"}`, "1:1 the text has 10000008 bytes, more than the 8388608 allowed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := cni.ParseObject([]byte(tt.in))
			fault, ok := errors.AsType[*cni.SyntaxError](err)
			if !ok {
				t.Fatalf("error %v, want a syntax error", err)
			}
			var want cni.SyntaxError
			place, msg, _ := strings.Cut(tt.want, " ")
			check(t, json.Unmarshal([]byte("["+strings.Replace(place, ":", ",", 1)+"]"), &[]any{&want.Line, &want.Column}))
			want.Msg, want.Near = msg, fault.Near
			if diff := cmp.Diff(want, *fault); diff != "" {
				t.Errorf("fault (-want +got):\n%s", diff)
			}
			if len(fault.Error()) > 250 {
				t.Errorf("the message has %d bytes", len(fault.Error()))
			}
			if cni.CodeOf(err) != cni.CodeDecode {
				t.Errorf("code %d, want %d", cni.CodeOf(err), cni.CodeDecode)
			}
		})
	}
}

func TestSyntaxErrorText(t *testing.T) {
	tests := map[string]struct {
		err  cni.SyntaxError
		want string
	}{
		"file":       {cni.SyntaxError{File: "/etc/a.conflist", Line: 3, Column: 7, Msg: "m", Near: "x"}, "/etc/a.conflist:3:7: m; near: x"},
		"file-alone": {cni.SyntaxError{File: "a.conf", Path: "mtu", Msg: "m"}, "a.conf: mtu: m"},
		"no-file":    {cni.SyntaxError{Line: 3, Column: 7, Path: "mtu", Msg: "m"}, "line 3, column 7: mtu: m"},
		"no-place":   {cni.SyntaxError{Path: "mtu", Msg: "m"}, "mtu: m"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.err.Error()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// Near shows the fault's surroundings on its line, and no half characters.
func TestSyntaxErrorNear(t *testing.T) {
	in := "{\n" + `"a":"` + strings.Repeat("é", 40) + `" "b":"` + strings.Repeat("ü", 40) + "\"\n}"
	_, err := cni.ParseObject([]byte(in))
	fault, ok := errors.AsType[*cni.SyntaxError](err)
	if !ok {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Repeat("é", 11)+`" "b":"`+strings.Repeat("ü", 9), fault.Near); diff != "" {
		t.Errorf("near (-want +got):\n%s", diff)
	}
}

func TestExplain(t *testing.T) {
	type conf struct {
		A struct {
			B []int `json:"b"`
		} `json:"a"`
	}
	tests := map[string]struct{ in, want string }{
		"syntax":     {"{\"a\":{},\n}", "line 1, column 8: trailing comma: remove the , before }; near: {\"a\":{},"},
		"type":       {"\n {\"a\":{\"b\":[1,\n\"x\"]}}", "line 3, column 1: a.b[1]: want a whole number, found a string"},
		"empty":      {"", "line 1, column 1: the text is empty"},
		"top":        {"[]", "line 1, column 1: want an object, found a list"},
		"unfinished": {`{"a":`, `line 1, column 6: the text ends where a value should stand; near: {"a":`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var c conf
			err := json.Unmarshal([]byte(tt.in), &c)
			if err == nil {
				t.Fatal("the text is fine")
			}
			if diff := cmp.Diff(tt.want, cni.Explain([]byte(tt.in), err).Error()); diff != "" {
				t.Errorf("unmarshal (-want +got):\n%s", diff)
			}
			err = json.NewDecoder(bytes.NewReader([]byte(tt.in))).Decode(&c)
			if diff := cmp.Diff(tt.want, cni.Explain([]byte(tt.in), err).Error()); diff != "" {
				t.Errorf("decoder (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainOthers(t *testing.T) {
	if err := cni.Explain([]byte("{}"), nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	if err := cni.Explain([]byte("{"), io.ErrClosedPipe); err != io.ErrClosedPipe {
		t.Errorf("closed pipe became %v", err)
	}
	// A decoder met the end after the value: the text has no fault to explain.
	if err := cni.Explain([]byte("{}"), io.EOF); err != io.EOF {
		t.Errorf("EOF became %v", err)
	}
	// The error is about another text than this one, which is fine.
	err := cni.Explain([]byte("{}\n{}")[:3], json.Unmarshal([]byte("{}\n{}"), new(any)))
	wantError(t, err, cni.CodeDecode, "line 2, column 1: invalid character '{' after top-level value")
	fault := &cni.SyntaxError{Msg: "m"}
	if err := cni.Explain([]byte("{"), fault); err != error(fault) {
		t.Errorf("a syntax error became %v", err)
	}
}
