package cni

// MaxIfName is the longest interface name in bytes (Linux IFNAMSIZ - 1).
const MaxIfName = 15

// CheckNetworkName checks a network's name: [A-Za-z0-9][A-Za-z0-9_.-]*. Code 7.
func CheckNetworkName(name string) error { panic("stub") }

// CheckContainerID checks CNI_CONTAINERID: the same letters. Code 3 if empty, 4 else.
func CheckContainerID(id string) error { panic("stub") }

// CheckIfName checks an interface name: 1 to 15 bytes, not . or .., no /, no :, no
// white space, no control characters. Code 4.
func CheckIfName(name string) error { panic("stub") }

// CheckType checks a plugin's type: a bare file name. Code 7.
func CheckType(typ string) error { panic("stub") }
