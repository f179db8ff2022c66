// Package uml runs tests in user-mode Linux, by uml.sh: what depends on a kernel that the machine may not have. That is control groups of
// version 2 alone, as newer distributions have them; most machines of CI have both versions.
package uml
