// Package upgrade runs two releases of this module on one host: this one, and one whose state has the next schema. It holds
// docs/upgrade.md to what it promises, while traffic passes.
package upgrade
