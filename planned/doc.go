// Package planned is the SDK's one idea: a plugin only says what should exist, and one engine
// makes it so, checks it, removes it, collects it and explains it, for all plugins.
//
// A plugin is a [Spec]: Parse reads its configuration, Plan says the state and the result. Both are
// pure. A plugin that gives addresses is an [IPAMSpec]: it says the [Allocation].
// [Engine] turns either into a plugin.Plugin with every verb, plans a list of them as one, and
// applies the whole in one pass. [Main] makes a program of one.
package planned
