package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleat-cni/cleat/cni"
)

func TestErrorText(t *testing.T) {
	tests := map[string]struct {
		err  cni.Error
		want string
	}{
		"message": {cni.Error{Msg: "no such device"}, "no such device"},
		"all": {
			cni.Error{Code: 7, Plugin: "bridge", Verb: cni.VerbAdd, Step: "apply", Msg: "no such device", Details: "eth0", Hint: "make it"},
			"bridge: apply: no such device; eth0",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.err.Error()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorf(t *testing.T) {
	err := cni.Errorf(cni.CodeIO, "read lease: %w", io.ErrUnexpectedEOF)
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Code != cni.CodeIO || err.Msg != "read lease: unexpected EOF" {
		t.Errorf("error %#v", err)
	}
	two := cni.Errorf(cni.CodeIO, "%w and %w", io.EOF, io.ErrClosedPipe)
	if !errors.Is(two, io.EOF) || !errors.Is(two, io.ErrClosedPipe) {
		t.Errorf("error %#v lost a cause", two)
	}
	if none := cni.Errorf(cni.CodeIO, "plain %d", 5); none.Err != nil || none.Msg != "plain 5" {
		t.Errorf("error %#v", none)
	}
	var as *cni.Error
	if !errors.As(fmt.Errorf("outer: %w", err), &as) || as != err {
		t.Error("the error is not found in a chain")
	}
}

// What the inner error says about place and remedy stays, and nothing is said twice.
func TestErrorfAroundError(t *testing.T) {
	inner := &cni.Error{Code: cni.CodeTryAgain, Msg: "range is used up", Details: "by web-1", Plugin: "host-local", Verb: cni.VerbAdd, Step: "ipam", Hint: "free one"}
	got := cni.Errorf(cni.CodeNotAvailable, "attach eth0: %w", inner)
	want := *inner
	want.Code, want.Msg, want.Err = cni.CodeNotAvailable, "attach eth0: range is used up", inner
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("host-local: ipam: attach eth0: range is used up; by web-1", got.Error()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestWithHint(t *testing.T) {
	plain := cni.Errorf(cni.CodeIO, "x")
	hinted := plain.WithHint("do %s", "that")
	if hinted.Hint != "do that" || plain.Hint != "" {
		t.Errorf("hints %q and %q, want one", hinted.Hint, plain.Hint)
	}
}

func TestAsErrorAndCodeOf(t *testing.T) {
	own := &cni.Error{Code: cni.CodeTryAgain, Msg: "busy", Plugin: "bridge", Hint: "wait"}
	tests := map[string]struct {
		err  error
		want *cni.Error
	}{
		"nil":     {nil, nil},
		"own":     {own, own},
		"wrapped": {fmt.Errorf("add: %w", own), &cni.Error{Code: cni.CodeTryAgain, Msg: "add: busy", Plugin: "bridge", Hint: "wait", Err: own}},
		"joined":  {errors.Join(io.EOF, own), &cni.Error{Code: cni.CodeTryAgain, Msg: "EOF\nbusy", Plugin: "bridge", Hint: "wait", Err: own}},
		"foreign": {io.EOF, &cni.Error{Code: cni.CodeInternal, Msg: "EOF", Err: io.EOF}},
		"syntax":  {&cni.SyntaxError{Line: 1, Column: 2, Msg: "m"}, &cni.Error{Code: cni.CodeDecode, Msg: "line 1, column 2: m"}},
		"value":   {&cni.SyntaxError{Path: "mtu", Msg: "m"}, &cni.Error{Code: cni.CodeInvalidConfig, Msg: "mtu: m"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := cni.AsError(tt.err)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(cni.Error{}, "Err")); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			var code cni.Code
			if tt.want != nil {
				code = tt.want.Code
				if tt.want.Err != nil && !errors.Is(got, tt.want.Err) {
					t.Errorf("the cause %v is lost", tt.want.Err)
				}
			}
			if cni.CodeOf(tt.err) != code {
				t.Errorf("code %d, want %d", cni.CodeOf(tt.err), code)
			}
		})
	}
}

func TestErrorWire(t *testing.T) {
	tests := map[string]struct {
		err  cni.Error
		want string
	}{
		"least": {cni.Error{}, `{"code":0,"msg":""}`},
		"plain": {cni.Error{CNIVersion: "1.0.0", Code: 7, Msg: "m", Details: "d"}, `{"cniVersion":"1.0.0","code":7,"msg":"m","details":"d"}`},
		"all": {
			cni.Error{CNIVersion: "1.1.0", Code: 100, Msg: "m", Details: "d", Plugin: "p", Verb: "ADD", Step: "s", Hint: "h"},
			`{"cniVersion":"1.1.0","code":100,"msg":"m","details":"d","plugin":"p","verb":"ADD","step":"s","hint":"h"}`,
		},
		"hint-stands-in": {cni.Error{Code: 7, Msg: "m", Hint: "h"}, `{"code":7,"msg":"m","details":"h","hint":"h"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(&tt.err)
			check(t, err)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("wire (-want +got):\n%s", diff)
			}
			var back cni.Error
			check(t, json.Unmarshal(got, &back))
			if diff := cmp.Diff(tt.err, back); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorFromOthers(t *testing.T) {
	tests := map[string]struct {
		in   string
		want cni.Error
	}{
		"code-only":      {`{"code":11}`, cni.Error{Code: 11}},
		"message-only":   {`{"msg":"m"}`, cni.Error{Msg: "m"}},
		"object-details": {`{"code":5,"msg":"m","details":{"a":1}}`, cni.Error{Code: 5, Msg: "m", Details: `{"a":1}`}},
		"null-details":   {`{"code":5,"msg":"m","details":null}`, cni.Error{Code: 5, Msg: "m"}},
		"unknown":        {`{"code":5,"msg":"m","trace":[]}`, cni.Error{Code: 5, Msg: "m", Extra: map[string]json.RawMessage{"trace": json.RawMessage("[]")}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got cni.Error
			check(t, json.Unmarshal([]byte(tt.in), &got))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorFromOthersFaults(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"null":     {`null`, "line 1, column 1: want an object, which begins with {, found null; near: null"},
		"result":   {`{"cniVersion":"1.0.0","ips":[]}`, "line 1, column 1: code: is missing, and msg too: this is no error object"},
		"code":     {`{"code":"7","msg":"m"}`, "line 1, column 9: code: want a whole number from 0 on, found a string"},
		"negative": {`{"code":-1,"msg":"m"}`, "line 1, column 9: code: want a whole number from 0 on, found -1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := cni.Error{Msg: "kept"}
			err := json.Unmarshal([]byte(tt.in), &got)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if got.Msg != "kept" {
				t.Errorf("half read: %#v", got)
			}
		})
	}
}

// What has no field is written after what has one, and can't take the place of one.
func TestErrorExtra(t *testing.T) {
	e := cni.Error{Code: 100, Msg: "m", Extra: map[string]json.RawMessage{
		"b": json.RawMessage(`[1, 2]`), "a": json.RawMessage(`{"x":"<"}`), "code": json.RawMessage(`7`),
	}}
	got, err := json.Marshal(&e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"code":100,"msg":"m","a":{"x":"\u003c"},"b":[1,2]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	e.Extra = map[string]json.RawMessage{"a": json.RawMessage(`{`)}
	if _, err := json.Marshal(&e); err == nil {
		t.Error("a member that is no JSON is written")
	}
}
