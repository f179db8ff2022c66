package pluginexec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

const (
	excerptLen = 256 // bytes of output that an error quotes
	maxScans   = 64  // places in the output at which an error object is looked for
)

// answer judges how the process ended and what it printed.
func (p *process) answer() ([]byte, error) {
	if p.stdout.over {
		return nil, p.tooMuch()
	}
	if how := p.how(); how != "" {
		return nil, p.failure(how)
	}
	out := bytes.TrimSpace(p.stdout.Bytes())
	if p.Verb != cni.VerbAdd && p.Verb != cni.VerbVersion {
		return out, nil
	}
	if err := p.checkObject(out); err != nil {
		return nil, err
	}
	return out, nil
}

// output judges only how the process ended.
func (p *process) output() (Output, error) {
	if p.stdout.over {
		return Output{}, p.tooMuch()
	}
	out := Output{Stdout: p.stdout.Bytes(), Stderr: p.stderr.last}
	if how := p.how(); how != "" {
		e := p.errorf(cni.CodeInternal, "%s", how)
		e.Err = p.waited
		return out, e
	}
	return out, nil
}

// how says how the process ended if it did not end well: another status than 0, or an error while its output was copied.
func (p *process) how() string {
	if p.waited == nil || errors.Is(p.waited, exec.ErrWaitDelay) {
		return ""
	}
	if state := p.cmd.ProcessState; state != nil && !state.Success() {
		return describeExit(state)
	}
	return p.waited.Error()
}

func (p *process) tooMuch() error {
	e := p.errorf(cni.CodeDecode, "printed more than %d MiB", maxStdout>>20)
	e.Details = p.wrote()
	return e
}

// failure makes the error of a plugin that ended with another status than 0.
func (p *process) failure(how string) error {
	found, alone := errorObject(p.stdout.Bytes())
	if found == nil {
		e := p.errorf(cni.CodeInternal, "%s and no error object", how)
		e.Details = p.wrote()
		return e
	}
	found.Plugin, found.Verb = p.Type, p.Verb
	switch {
	case found.Details != "":
	case !alone:
		found.Details = p.wrote()
	case len(p.stderr.last) > 0:
		found.Details = p.stderrText()
	}
	return found
}

// checkObject makes sure that the output of a plugin that succeeded is one JSON object and no error
// object.
func (p *process) checkObject(out []byte) error {
	if len(out) == 0 {
		e := p.errorf(cni.CodeDecode, "exit status 0 but nothing on standard output")
		e.Details = p.stderrText()
		return e
	}
	if _, err := cni.ParseObject(out); err != nil {
		e := p.errorf(cni.CodeDecode, "exit status 0 but standard output is not one JSON object: %v", err)
		e.Err = err
		e.Details = p.wrote()
		return e
	}
	if found, _ := errorObject(out); found != nil {
		e := p.errorf(found.Code, "exit status 0 but an error object: %s", found.Msg)
		e.Err, e.Details = found, found.Details
		return e
	}
	return nil
}

// errorObject finds the error object of the specification in what a plugin printed: the last one, at the
// beginning of a line or after another JSON value. alone: nothing else was printed.
func errorObject(out []byte) (found *cni.Error, alone bool) {
	out = bytes.TrimSpace(out)
	if e := asErrorObject(out); e != nil {
		return e, true
	}
	rest := out
	for range maxScans {
		start := nextObject(rest)
		if start < 0 {
			break
		}
		rest = rest[start:]
		var value json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(rest))
		if err := dec.Decode(&value); err != nil {
			rest = rest[1:]
			continue
		}
		if e := asErrorObject(value); e != nil {
			found = e
		}
		rest = rest[dec.InputOffset():]
	}
	return found, false
}

// nextObject finds a brace that begins the text or a line, or -1.
func nextObject(text []byte) int {
	if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return bytes.IndexByte(text, '{')
	}
	if i := bytes.Index(text, []byte("\n{")); i >= 0 {
		return i + 1
	}
	return -1
}

// asErrorObject returns nil for what is not an error object: it has a msg, and a code or none of
// what a result has. Without a code it has that of an error inside the plugin.
func asErrorObject(data []byte) *cni.Error {
	var keys map[string]json.RawMessage
	if json.Unmarshal(data, &keys) != nil || keys["msg"] == nil || keys["ips"] != nil || keys["interfaces"] != nil {
		return nil
	}
	e := new(cni.Error)
	if json.Unmarshal(data, e) != nil || e.Msg == "" && e.Code == 0 {
		return nil
	}
	e.Code = cmp.Or(e.Code, cni.CodeInternal)
	return e
}

// wrote quotes what the plugin wrote.
func (p *process) wrote() string {
	text := "stdout empty"
	if out := p.stdout.Bytes(); len(out) > 0 {
		text = "stdout " + excerpt(out)
	}
	if s := p.stderrText(); s != "" {
		text += ", " + s
	}
	return text
}

func (p *process) stderrText() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(p.stderr.last), "�"))
	if text == "" {
		return ""
	}
	if p.stderr.cut {
		text = "…" + text
	}
	return "stderr: " + text
}

// excerpt quotes the beginning of out.
func excerpt(out []byte) string {
	if len(out) <= excerptLen {
		return strconv.Quote(string(out))
	}
	return fmt.Sprintf("%q… (%d bytes)", out[:excerptLen], len(out))
}
