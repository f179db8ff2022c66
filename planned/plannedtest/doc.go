// Package plannedtest is the test kit of plugins written with package planned: golden files of what a plugin
// plans, a fuzz target for its configuration, and the proof that the examples of its README work. All
// of it is pure: nothing of the machine is looked at or changed.
package plannedtest
