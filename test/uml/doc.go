// Package uml tests uml.sh, by which tests run in user-mode Linux: that what runs there is told of as if it ran here, and that a
// machine leaves nothing behind, however it ends. Which tests need that kernel is in scripts/uml.
package uml
