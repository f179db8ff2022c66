// Package program is what a program knows of itself.
package program

import (
	"os"
	"path/filepath"
	"runtime/debug"
)

// Version is the program's version: the one that the linker set, or else the module's.
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// File is the program's file, whatever link it was started by; "" if that can't be told.
func File() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
