package cni

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxIfName is the longest interface name in bytes (Linux IFNAMSIZ - 1).
	maxIfName = 15
	// maxName is the longest network name, container ID or plugin type in bytes: each becomes
	// the name of a file.
	maxName = 255
)

// CheckNetworkName checks a network's name: [A-Za-z0-9][A-Za-z0-9_.-]*, at most 255 bytes. Code 7.
func CheckNetworkName(name string) error {
	if fault := nameFault(name); fault != "" {
		return Errorf(CodeInvalidConfig, "network name %s: %s", shown(name), fault)
	}
	return nil
}

// CheckContainerID checks CNI_CONTAINERID: the same letters, at most 255 bytes. Code 3 if empty, 4 else.
func CheckContainerID(id string) error {
	if id == "" {
		return Errorf(CodeUnknownContainer, "container ID: is empty")
	}
	if fault := nameFault(id); fault != "" {
		return Errorf(CodeInvalidEnvironment, "container ID %s: %s", shown(id), fault)
	}
	return nil
}

// CheckIfName checks an interface name: 1 to 15 bytes of UTF-8, not . or .., no /, no :, no
// white space, no control characters, and no %, from which the kernel makes a name of its
// own. Code 4.
func CheckIfName(name string) error {
	if fault := ifNameFault(name); fault != "" {
		return Errorf(CodeInvalidEnvironment, "interface name %s: %s", shown(name), fault)
	}
	return nil
}

// CheckType checks a plugin's type: a bare file name of at most 255 bytes. Code 7.
func CheckType(typ string) error {
	if fault := typeFault(typ); fault != "" {
		return Errorf(CodeInvalidConfig, "plugin type %s: %s", shown(typ), fault)
	}
	return nil
}

// nameFault says what is wrong with a network name or container ID, "" for nothing.
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return "is longer than 255 bytes"
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if i == 0 && !letter {
			return "must begin with a letter or digit (A-Z, a-z, 0-9)"
		}
		if !letter && c != '_' && c != '.' && c != '-' {
			return "may hold only the letters A-Z and a-z, digits, _ . and -"
		}
	}
	return ""
}

func ifNameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxIfName:
		return "is longer than 15 bytes"
	case name == "." || name == "..":
		return "is not allowed"
	case name == "all" || name == "default":
		return "is not allowed: Linux keeps settings of all interfaces under it"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsAny(name, "/:%"):
		return "may not hold / : or %"
	case strings.ContainsFunc(name, unicode.IsSpace):
		return "may not hold white space"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "may not hold control characters"
	}
	return ""
}

func typeFault(typ string) string {
	switch {
	case typ == "":
		return "is empty"
	case len(typ) > maxName:
		return "is longer than 255 bytes"
	case typ == "." || typ == "..", strings.ContainsAny(typ, `/\`):
		return "must be the bare name of a program, without a path"
	case strings.ContainsFunc(typ, unicode.IsControl):
		return "may not hold control characters"
	}
	return ""
}

// shown quotes a name for a message and cuts off what makes it endless.
func shown(name string) string {
	const most = 40
	if len(name) <= most {
		return string(quote(name))
	}
	return string(quote(strings.ToValidUTF8(name[:most], ""))) + "…"
}
