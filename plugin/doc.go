// Package plugin is the low-level SDK: what a CNI plugin is ([Plugin]), what it is asked ([Request]),
// and [Main], which turns a Plugin into a program: environment and standard input are read and
// checked per verb, the answer or the error object goes to standard output, a
// panic becomes an error object. A plugin that hands part of its work to another
// (IPAM) reaches it through a [Finder].
//
// Plugins that can say what should exist are written with package planned, which
// needs no verb at all.
package plugin
