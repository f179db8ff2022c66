package planned

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// CodeDifferent is the code of a CHECK that found differences; codes from 100 on are the
// plugin's own (specification, section "Error").
const CodeDifferent cni.Code = 100

// DifferencesError is a CHECK's finding: what is not as it should be.
type DifferencesError struct {
	Differences []netstate.Difference
}

// Error lists the differences, each with what there is instead.
func (e *DifferencesError) Error() string {
	var b strings.Builder
	for i, d := range e.Differences {
		if i > 0 {
			b.WriteString("; ")
		}
		switch {
		case d.Have == "":
			fmt.Fprintf(&b, "missing: %s", d.Want)
		case d.Want == "":
			fmt.Fprintf(&b, "not wanted: %s", d.Have)
		default:
			fmt.Fprintf(&b, "want: %s, have: %s", d.Want, d.Have)
		}
	}
	return b.String()
}

// differencesKey is the member of a CHECK's error object that holds the differences.
const differencesKey = "differences"

// DifferencesOf returns the differences that a CHECK found, from its error: one of this process, or one that was read from a program's
// error object.
func DifferencesOf(err error) ([]netstate.Difference, bool) {
	if e, ok := errors.AsType[*DifferencesError](err); ok {
		return e.Differences, true
	}
	e, ok := errors.AsType[*cni.Error](err)
	if !ok || e.Extra[differencesKey] == nil {
		return nil, false
	}
	var list []netstate.Difference
	if err := json.Unmarshal(e.Extra[differencesKey], &list); err != nil || len(list) == 0 {
		return nil, false // another plugin's member of that name
	}
	return list, true
}

// withDifferences puts the differences of err into the error object that tells of it.
func withDifferences(e *cni.Error, err error) {
	diff, ok := errors.AsType[*DifferencesError](err)
	if !ok {
		return
	}
	raw, err := json.Marshal(diff.Differences)
	if err != nil {
		return // they are in the message too
	}
	e.Extra = map[string]json.RawMessage{differencesKey: raw}
}

// explain gives an error of step its code and a hint, once, where kind and cause are known.
// One that has a code keeps it.
func explain(step string, err error) error {
	if err == nil {
		return nil
	}
	e := cni.AsError(err)
	if _, coded := errors.AsType[*cni.Error](err); !coded {
		e = cni.Errorf(codeOf(err), "%w", err)
		e.Hint = hintOf(err)
		withDifferences(e, err)
	}
	named := *e
	if named.Step == "" {
		named.Step = step
	}
	return &named
}

// at is explain, and names the plugin.
func at(s Step, step string, err error) error {
	if err == nil {
		return nil
	}
	e := cni.AsError(explain(step, err))
	if e.Plugin == "" {
		e.Plugin = s.Def.Info.Type
	}
	e.Verb = s.Req.Verb
	return e
}

func codeOf(err error) cni.Code {
	_, differs := errors.AsType[*DifferencesError](err)
	switch {
	case differs:
		return CodeDifferent
	case errors.Is(err, netstate.ErrExist):
		return cni.CodeInvalidEnvironment
	case errors.Is(err, netstate.ErrExhausted), errors.Is(err, netstate.ErrInUse), errors.Is(err, netstate.ErrNewer),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return cni.CodeTryAgain
	case errors.Is(err, netstate.ErrUnsupported):
		return cni.CodeNotAvailable
	case errors.Is(err, netstate.ErrNotNamespace), errors.Is(err, netstate.ErrHostNamespace):
		return cni.CodeInvalidNetNS
	default:
		// What the kernel or a disk refused.
		return cni.CodeIO
	}
}

func hintOf(err error) string {
	_, differs := errors.AsType[*DifferencesError](err)
	switch {
	case differs:
		return "cleat repair puts back what is missing"
	case errors.Is(err, netstate.ErrNewer):
		return "use that release, or a later one, for this attachment; new ones can be added by this one"
	case errors.Is(err, netstate.ErrOtherForm):
		return "somebody else made it, or another version: remove it and add again; cleat repair puts back what running attachments need of it"
	case errors.Is(err, netstate.ErrExist):
		return "it is left from an earlier ADD or belongs to somebody else: DEL first, or take another CNI_IFNAME"
	case errors.Is(err, netstate.ErrExhausted):
		return "delete attachments that are not needed, run cleat gc for leaked ones, or give the network a larger range"
	case errors.Is(err, netstate.ErrInUse):
		return "delete the attachment that has it, or ask for another"
	default:
		return ""
	}
}
