package cni

import (
	"cmp"
	"slices"
	"strings"
)

// Current is the newest version of the specification this package speaks.
const Current = "1.1.0"

// Versions returns every specification version this package speaks, oldest
// first.
func Versions() []string {
	return []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", Current}
}

// Supported reports whether this package speaks version.
func Supported(version string) bool {
	_, ok := spoken(version)
	return ok
}

// spoken returns the member of Versions that equals version: 1.0.0 for 1.0, 0.1.0 for "".
func spoken(version string) (string, bool) {
	all := Versions()
	if slices.Contains(all, version) {
		return version, true
	}
	for _, v := range all {
		if c, err := Compare(version, v); err == nil && c == 0 {
			return v, true
		}
	}
	return "", false
}

// notSpoken is the error for versions none of which this package speaks.
func notSpoken(what string, versions ...string) error {
	e := Errorf(CodeIncompatibleVersion, "%s %s: not spoken here", what, strings.Join(versions, ", "))
	e.Details = "spoken are " + strings.Join(Versions(), ", ")
	return e
}

// Compare compares two versions by SemVer 2.0 precedence: -1, 0 or 1. The
// empty string is 0.1.0, as in the specification's first versions, and
// parts left out are 0: 1.0 is 1.0.0. A version that does not parse is an error
// with code 7.
func Compare(a, b string) (int, error) {
	va, err := parseVersion(a)
	if err != nil {
		return 0, err
	}
	vb, err := parseVersion(b)
	if err != nil {
		return 0, err
	}
	return va.compare(vb), nil
}

// AtLeast reports whether version is min or newer; one that does not parse
// is not.
func AtLeast(version, min string) bool {
	c, err := Compare(version, min)
	return err == nil && c >= 0
}

// Negotiate returns the highest version this package speaks out of a
// configuration's cniVersion and cniVersions (specification, section 1,
// "Version considerations"). Neither given means 0.1.0. None spoken is an error
// with code 1 that lists what is spoken; a version that does not parse is one with code 7.
func Negotiate(version string, versions []string) (string, error) {
	given := slices.Clone(versions)
	if version != "" || len(versions) == 0 {
		given = append(given, version)
	}
	best := ""
	for _, v := range given {
		if _, err := parseVersion(v); err != nil {
			return "", err
		}
		if v, ok := spoken(v); ok && (best == "" || AtLeast(v, best)) {
			best = v
		}
	}
	if best == "" {
		return "", notSpoken("specification version", given...)
	}
	return best, nil
}

// semver is a version in parts. Numbers stay text: they have no upper limit.
type semver struct {
	core       [3]string
	prerelease []string
}

func parseVersion(version string) (semver, error) {
	v := semver{core: [3]string{"0", "0", "0"}}
	if version == "" {
		version = "0.1.0"
	}
	rest, build, hasBuild := strings.Cut(version, "+")
	core, pre, hasPre := strings.Cut(rest, "-")
	parts := strings.Split(core, ".")
	ok := len(parts) <= len(v.core)
	for i, part := range parts {
		if ok = ok && isNumber(part); ok {
			v.core[i] = part
		}
	}
	if hasPre {
		v.prerelease = strings.Split(pre, ".")
	}
	for _, id := range v.prerelease {
		ok = ok && isIdentifier(id) && (!isDigits(id) || isNumber(id))
	}
	if hasBuild {
		for id := range strings.SplitSeq(build, ".") {
			ok = ok && isIdentifier(id)
		}
	}
	if !ok {
		return semver{}, Errorf(CodeInvalidConfig, "version %s: want the form 1.1.0", shown(version))
	}
	return v, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// isNumber reports whether s is a number without zeros in front.
func isNumber(s string) bool {
	return isDigits(s) && (s == "0" || s[0] != '0')
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-') {
			return false
		}
	}
	return s != ""
}

func (v semver) compare(w semver) int {
	for i := range v.core {
		if c := compareNumbers(v.core[i], w.core[i]); c != 0 {
			return c
		}
	}
	switch {
	case len(v.prerelease) == 0 && len(w.prerelease) == 0:
		return 0
	case len(v.prerelease) == 0:
		return 1 // a release is newer than what came before it
	case len(w.prerelease) == 0:
		return -1
	}
	return slices.CompareFunc(v.prerelease, w.prerelease, compareIdentifiers)
}

func compareNumbers(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func compareIdentifiers(a, b string) int {
	switch na, nb := isDigits(a), isDigits(b); {
	case na && nb:
		return compareNumbers(a, b)
	case na:
		return -1 // numbers come before words
	case nb:
		return 1
	}
	return cmp.Compare(a, b)
}

// VersionInfo is the answer to VERSION.
type VersionInfo struct {
	CNIVersion string   `json:"cniVersion"`
	Supported  []string `json:"supportedVersions"`
}

// ParseVersionInfo reads a plugin's answer to VERSION; a 0.2.0 answer without
// a list means 0.1.0 and 0.2.0. What can't be read is an error with code 6.
func ParseVersionInfo(data []byte) (VersionInfo, error) {
	info, err := parseVersionInfo(data)
	if err != nil {
		return VersionInfo{}, Errorf(CodeDecode, "decode version answer: %w", err)
	}
	return info, nil
}

func parseVersionInfo(data []byte) (VersionInfo, error) {
	var info VersionInfo
	o, err := ParseObject(data)
	if err != nil {
		return info, err
	}
	if _, err := o.Decode("cniVersion", &info.CNIVersion); err != nil {
		return info, err
	}
	if _, err := o.Decode("supportedVersions", &info.Supported); err != nil {
		return info, err
	}
	switch {
	case info.CNIVersion == "":
		return info, o.fault("cniVersion", "is missing")
	case len(info.Supported) == 0 && info.CNIVersion == "0.2.0":
		info.Supported = []string{"0.1.0", "0.2.0"}
	case len(info.Supported) == 0:
		return info, o.fault("supportedVersions", "is missing or empty")
	}
	return info, nil
}
