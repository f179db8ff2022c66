package cni

// Args are the pairs of CNI_ARGS, in order.
type Args [][2]string

// ParseArgs reads CNI_ARGS: K=V;K2=V2. A value may hold = signs; empty pairs, as a
// trailing semicolon makes them, are passed over. Code 4.
func ParseArgs(s string) (Args, error) { panic("stub") }

// String gives the form that CNI_ARGS has.
func (a Args) String() string { panic("stub") }

// Get returns the last value of key.
func (a Args) Get(key string) (string, bool) { panic("stub") }

// IgnoreUnknown reports whether the runtime asked plugins to pass over keys they do
// not know (IgnoreUnknown=1 or true).
func (a Args) IgnoreUnknown() bool { panic("stub") }

// Only returns an error with code 4 that names the keys which are not in known,
// unless IgnoreUnknown is set.
func (a Args) Only(known ...string) error { panic("stub") }
