package cni

// Current is the newest version of the specification this package speaks.
const Current = "1.1.0"

// Versions returns every specification version this package speaks, oldest
// first.
func Versions() []string { panic("stub") }

// Supported reports whether this package speaks version.
func Supported(version string) bool { panic("stub") }

// Compare compares two versions by SemVer 2.0 precedence: -1, 0 or 1. The
// empty string is 0.1.0, as in the specification's first versions.
func Compare(a, b string) (int, error) { panic("stub") }

// AtLeast reports whether version is min or newer; one that does not parse
// is not.
func AtLeast(version, min string) bool { panic("stub") }

// Negotiate returns the highest version this package speaks out of a
// configuration's cniVersion and cniVersions (specification, section 1,
// "Version considerations"). Neither given means 0.1.0. None spoken is an error
// with code 1 that lists what is spoken.
func Negotiate(version string, versions []string) (string, error) { panic("stub") }

// Verb is an operation of the specification, the value of CNI_COMMAND.
type Verb string

// The operations of the specification.
const (
	VerbAdd     Verb = "ADD"
	VerbDel     Verb = "DEL"
	VerbCheck   Verb = "CHECK"
	VerbGC      Verb = "GC"
	VerbStatus  Verb = "STATUS"
	VerbVersion Verb = "VERSION"
)

// Since returns the specification version that brought the verb.
func (v Verb) Since() string { panic("stub") }

// VersionInfo is the answer to VERSION.
type VersionInfo struct {
	CNIVersion string   `json:"cniVersion"`
	Supported  []string `json:"supportedVersions"`
}

// ParseVersionInfo reads a plugin's answer to VERSION; a 0.2.0 answer without
// a list means 0.1.0 and 0.2.0.
func ParseVersionInfo(data []byte) (VersionInfo, error) { panic("stub") }
