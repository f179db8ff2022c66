// Package reliability tries to make the runtime, the plugins and their stores leak or lose something by other means than a kill at
// a chosen system call, which is what package crash is for: deadlines that pass at every point, plugins that hang, many
// processes at once, boots, power cuts, replaced configurations and programs, random work against a model, and a long run.
//
// Every test has a machine of its own: a namespace that counts as the host's, pods, and folders. Work that must be in another
// process is done by this test program started anew. Without flags everything is short; docs/reliability.md says how
// to run it at length.
package reliability
