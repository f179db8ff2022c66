// Package doctor examines a node: what of its kernel, its settings, its files and its state keeps pods from being connected, or will.
//
// A [Check] is a function over [Facts], in a file of its own. The facts are gathered beforehand, by whoever runs the checks, so a check
// looks at nothing by itself and changes nothing; what may be mended without a question it says as a [Remedy].
package doctor

import (
	"cmp"
	"fmt"
)

// Status says how something stands.
type Status string

// The statuses. What is failed keeps pods from being connected, or is lost already; a warning will, or may be meant so.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
	Skipped Status = "skipped" // it could not be looked at
)

// Result is what a check found.
type Result struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	Fix     string `json:"fix"` // what to do; "" for nothing

	remedy Remedy
}

// Remedy is what can be done about a result without a question. At most one of its fields is set.
type Remedy struct {
	Sysctl  Sysctl // is set
	Remove  string // a file that is of no use is removed
	Close   string // a file or folder that everybody can write to no longer is: chmod o-w
	Collect bool   // what belongs to no live attachment is freed, as by cleat gc
}

// Sysctl is a value below /proc/sys.
type Sysctl struct{ Name, Value string }

// IsZero reports whether there is nothing to be done without a question.
func (r Remedy) IsZero() bool { return r == Remedy{} }

// Remedy is what may be done about the result without a question.
func (r Result) Remedy() Remedy { return r.remedy }

// Check is one thing that is looked at.
type Check struct {
	Name  string
	Looks string // at what
	Why   string // it matters
	Mend  string // what is to be done, in general
	Good  string // what is said where nothing is wrong
	Fixes bool   // some of it has a Remedy
	Needs Fact   // the facts without which it is skipped; "" for none that may be missing

	// find returns what is wrong.
	find func(f *Facts) []Result
}

// Checks are all checks, in the order in which they are told.
func Checks() []Check {
	return []Check{
		kernelRelease(), kernelFeatures(), nfTables(), ipForward(), ipv6Forward(), ipv6Off(), raForwarding(), reversePath(), bridgeNetfilter(),
		conntrackTable(), neighbourTable(), portRange(), inotifyLimit(),
		iptablesMixture(), iptablesPrograms(), forwardChain(), firewalldRuns(),
		uplink(), bridgeMTU(), bridgePorts(), bridgeDown(), hostOverlap(), networkManager(),
		noNetworks(), configurations(), advice(), defaultNetwork(), pluginsInstalled(), pluginVersions(), pluginBuilds(),
		pluginFolders(), loopbackPlugin(), runtimeFolders(), openFolders(),
		ready(),
		stateFolder(), brokenRecords(), unfinished(), orphans(), staleLeases(), leftovers(), manyRecords(), emptyLeases(), fullPools(),
		duplicateAddresses(), outsideRange(), deadNamespaces(), diskSpace(),
	}
}

// Examine runs checks, those of names or all, and returns what each has found, or that all is well. A name that is no check's is an error.
func Examine(f *Facts, names []string) ([]Result, error) {
	checks := Checks()
	if len(names) > 0 {
		var chosen []Check
		for _, name := range names {
			c, ok := CheckOf(name)
			if !ok {
				return nil, fmt.Errorf("there is no check %q", name)
			}
			chosen = append(chosen, c)
		}
		checks = chosen
	}
	var all []Result
	for _, c := range checks {
		all = append(all, c.run(f)...)
	}
	return all, nil
}

// CheckOf returns the check of a name.
func CheckOf(name string) (Check, bool) {
	for _, c := range Checks() {
		if c.Name == name {
			return c, true
		}
	}
	return Check{}, false
}

// run is find with the check's name, and a word where nothing is wrong.
func (c Check) run(f *Facts) []Result {
	if why, missing := f.Missing[c.Needs]; missing && c.Needs != "" {
		return []Result{{Check: c.Name, Status: Skipped, Message: why}}
	}
	found := c.find(f)
	if len(found) == 0 {
		return []Result{{Check: c.Name, Status: OK, Message: c.Good}}
	}
	for i := range found {
		found[i].Check = c.Name
		found[i].Fix = cmp.Or(found[i].Fix, c.Mend)
	}
	return found
}

// failed is a result of something that is broken; its fix is the check's.
func failed(format string, args ...any) Result {
	return Result{Status: Failed, Message: fmt.Sprintf(format, args...)}
}

// warning is a result of something that will break, or may be meant so.
func warning(format string, args ...any) Result {
	return Result{Status: Warning, Message: fmt.Sprintf(format, args...)}
}

// with says what to do about this one.
func (r Result) with(format string, args ...any) Result {
	r.Fix = fmt.Sprintf(format, args...)
	return r
}

// by says what may be done without a question.
func (r Result) by(m Remedy) Result {
	r.remedy = m
	return r
}
