// Package plugintest is the test kit for authors of plugins: [Run] takes a plugin through the verbs of the
// specification, in every version that it speaks, and reports what the specification demands of any plugin and
// this one doesn't do.
//
// No right is needed: a planned plugin acts on a kernel in memory, which refuses what Linux refuses, and in which
// every step of an ADD is made to fail once to see that nothing is left. With [Case.Scratch] the plugin acts on
// this machine's kernel instead, in two network namespaces that the test makes and that end with it. Nothing of the
// machine's own network is touched either way.
//
// What a plugin plans for a configuration is tested with package planned/plannedtest.
package plugintest
