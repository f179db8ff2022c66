// Package spec holds every built-in plugin and the runtime against the CNI specification, rule by rule. The rules are
// data ([checklist] in the tests); each has a test of its number, and a rule without one fails. The list of what was
// covered is printed:
//
//	go test ./test/spec -v -exec "$PWD/sandbox.sh"
//	go test ./test/spec -run 'TestSpec/PL11' -exec "$PWD/sandbox.sh"
//
// Plugin rules run on the program cleat-cni as a runtime would call it, each attachment in namespaces of the test's
// own, and on the plugins built in. Runtime rules run on libcni with fake plugins, which are this
// test program under other names: they note what they were called with. A new plugin needs a row in
// samples_test.go.
package spec
