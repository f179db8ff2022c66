package cni

import (
	"slices"
	"strings"
)

// Args are the pairs of CNI_ARGS, in order.
type Args [][2]string

const ignoreUnknown = "IgnoreUnknown"

// ParseArgs reads CNI_ARGS: K=V;K2=V2. A value may hold = signs; empty pairs, as a
// trailing semicolon makes them, are passed over. Code 4. The error doesn't quote the text: what is no pair may be the rest of a
// secret that holds a semicolon.
func ParseArgs(s string) (Args, error) {
	var args Args
	n := 0
	for pair := range strings.SplitSeq(s, ";") {
		n++
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, Errorf(CodeInvalidEnvironment, "CNI_ARGS: part %d is no pair KEY=value", n).
				WithHint("separate pairs with ; and write each as KEY=value")
		}
		args = append(args, [2]string{key, value})
	}
	return args, nil
}

// String gives the form that CNI_ARGS has.
func (a Args) String() string {
	pairs := make([]string, len(a))
	for i, pair := range a {
		pairs[i] = pair[0] + "=" + pair[1]
	}
	return strings.Join(pairs, ";")
}

// Get returns the last value of key.
func (a Args) Get(key string) (string, bool) {
	for _, pair := range slices.Backward(a) {
		if pair[0] == key {
			return pair[1], true
		}
	}
	return "", false
}

// Hidden returns the pairs as they may be shown and logged: the values of those that say who the pod is and which addresses it
// wants, which people look for, and a sign in the place of all others.
func (a Args) Hidden() Args {
	known := []string{ignoreUnknown, "IP", "GATEWAY", "MAC", "K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_INFRA_CONTAINER_ID", "K8S_POD_UID"}
	hidden := slices.Clone(a)
	for i := range hidden {
		if !slices.Contains(known, hidden[i][0]) {
			hidden[i][1] = HiddenValue
		}
	}
	return hidden
}

// HiddenValue stands in the place of a value that may be a secret.
const HiddenValue = "…"

// IgnoreUnknown reports whether the runtime asked plugins to pass over keys they do
// not know (IgnoreUnknown=1 or true, in any case).
func (a Args) IgnoreUnknown() bool {
	value, _ := a.Get(ignoreUnknown)
	return value == "1" || strings.EqualFold(value, "true")
}

// Only returns an error with code 4 that names the keys which are not in known,
// unless IgnoreUnknown is set, or that says that IgnoreUnknown is neither true nor false.
func (a Args) Only(known ...string) error {
	if a.IgnoreUnknown() {
		return nil
	}
	if value, ok := a.Get(ignoreUnknown); ok && value != "0" && !strings.EqualFold(value, "false") {
		return Errorf(CodeInvalidEnvironment, "CNI_ARGS: IgnoreUnknown=%q: want 1, true, 0 or false", value)
	}
	var unknown []string
	for _, pair := range a {
		if pair[0] != ignoreUnknown && !slices.Contains(known, pair[0]) {
			unknown = append(unknown, pair[0])
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return Errorf(CodeInvalidEnvironment, "CNI_ARGS: unknown keys: %s", strings.Join(unknown, ", ")).
		WithHint("remove them, or add IgnoreUnknown=1")
}
