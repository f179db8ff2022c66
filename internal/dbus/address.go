package dbus

import (
	"fmt"
	"strconv"
	"strings"
)

// socketsOf reads an address: what is separated by ; is tried in turn. Those of other transports than unix sockets are passed over; if
// nothing else is there it is an error. The socket's path is as package net takes it: one that begins with @ is abstract.
func socketsOf(address string) ([]string, error) {
	var paths []string
	for one := range strings.SplitSeq(address, ";") {
		pairs, ok := strings.CutPrefix(one, "unix:")
		if !ok {
			continue
		}
		for pair := range strings.SplitSeq(pairs, ",") {
			key, value, _ := strings.Cut(pair, "=")
			path, err := unescape(value)
			if err != nil {
				return nil, fmt.Errorf("address %q: %w", address, err)
			}
			switch {
			case path == "" || strings.ContainsRune(path, 0):
			case key == "path":
				paths = append(paths, path)
			case key == "abstract":
				paths = append(paths, "@"+path)
			}
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("address %q names no unix socket", address)
	}
	return paths, nil
}

// unescape replaces %xx by the byte of that number.
func unescape(s string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "%")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if len(after) < 2 {
			return "", fmt.Errorf("%q ends after %%", s)
		}
		n, err := strconv.ParseUint(after[:2], 16, 8)
		if err != nil {
			return "", err
		}
		b.WriteByte(byte(n))
		s = after[2:]
	}
}
