package plugintest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
)

// gone is the path of a namespace that is not there.
const gone = "/run/netns/plugintest-gone"

// demand is something that the specification demands of any plugin, or that follows from it.
type demand struct {
	name string
	run  func(*trial) error
}

// try runs the demand in a world of its own.
func (d demand) try(t testing.TB, c Case, version string) error {
	tr, err := newTrial(t, c, version)
	if err != nil {
		return err
	}
	return d.run(tr)
}

// demands are those that a version has. Below 0.3.0 a result without an address has no form: there the ADD of a plugin which gives none
// is to be refused, and leaves nothing.
func demands(t testing.TB, c Case, version string) []demand {
	t.Helper()
	list := []demand{{"version", answersVersion}}
	if !cni.AtLeast(version, "0.3.0") {
		tr, err := newTrial(t, c, version)
		if err != nil {
			t.Fatal(err)
		}
		if a := tr.do(call{verb: cni.VerbAdd}); a.refused("", cni.CodeIncompatibleVersion) == nil {
			return append(list, demand{"add-without-address-refused", refusesWithoutTrace})
		}
	}
	list = append(list, demand{"add", adds}, demand{"add-twice", addsOnce}, demand{"del", deletes},
		demand{"del-nothing", deletesNothing}, demand{"del-without-prev-result", deletesBlind}, demand{"del-netns-gone", deletesGone})
	if cni.AtLeast(version, cni.VerbCheck.Since()) {
		list = append(list, demand{"check", checks})
	}
	if cni.AtLeast(version, cni.VerbGC.Since()) {
		list = append(list, demand{"gc", collects}, demand{"status", tellsStatus})
	}
	list = append(list, demand{"verbs-of-later-versions", refusesLater})
	if version == c.newest() {
		list = append(list, demand{"bad-calls", refusesBadCalls}, demand{"refused", refusesConfigs}, demand{"undo", undoes})
	}
	return list
}

// answersVersion: VERSION works with the version alone, answers in it, and names what the plugin is said to speak.
func answersVersion(tr *trial) error {
	a := tr.do(call{verb: cni.VerbVersion, stdin: fmt.Sprintf(`{"cniVersion":%q}`, tr.version)})
	if a.status != 0 {
		return fmt.Errorf("VERSION: %w", a.err())
	}
	info, err := cni.ParseVersionInfo(a.stdout)
	if err != nil {
		return fmt.Errorf("VERSION: %w", err)
	}
	if info.CNIVersion != tr.version || !slices.Contains(info.Supported, tr.version) {
		return fmt.Errorf("VERSION asked in %s: answered in %s that it speaks %s", tr.version, info.CNIVersion, strings.Join(info.Supported, ", "))
	}
	return nil
}

// add is an ADD that has to succeed: its result, and as it was printed.
func (tr *trial) add() (*cni.Result, []byte, error) {
	a := tr.do(call{verb: cni.VerbAdd})
	if a.status != 0 {
		return nil, nil, fmt.Errorf("ADD: %w", a.err())
	}
	var head struct{ CNIVersion string }
	if err := json.Unmarshal(a.stdout, &head); err != nil {
		return nil, nil, fmt.Errorf("ADD: standard output %q is not one JSON object: %w", a.stdout, err)
	}
	if head.CNIVersion != tr.version {
		return nil, nil, fmt.Errorf("ADD asked in version %s: the result says %q", tr.version, head.CNIVersion)
	}
	res, err := cni.DecodeResult(a.stdout, tr.version)
	if err != nil {
		return nil, nil, fmt.Errorf("ADD: read result %s: %w", a.stdout, err)
	}
	return res, a.stdout, nil
}

// adds: the result is one, what the plugin before gave is passed on, and what is wanted is there.
func adds(tr *trial) error {
	res, raw, err := tr.add()
	if err != nil {
		return err
	}
	errs := []error{tr.passedOn(res)}
	if !tr.world.memory() {
		return errors.Join(errs...)
	}
	state, err := tr.state()
	if err != nil {
		return err
	}
	for _, want := range tr.c.Want {
		if !hasLine(state, want) {
			errs = append(errs, fmt.Errorf("no line that begins with %q after ADD, which answered %s:\n%s", want, raw, state))
		}
	}
	return errors.Join(errs...)
}

// passedOn: what the plugin before gave is in the result (specification, section 5, "Add Success"). A version without
// interfaces passes on addresses alone.
func (tr *trial) passedOn(res *cni.Result) error {
	if tr.before == nil {
		return nil
	}
	raw, err := tr.before.Encode(tr.version)
	if err != nil {
		return err
	}
	before, err := cni.DecodeResult(raw, tr.version)
	if err != nil {
		return err
	}
	var errs []error
	for _, want := range before.Interfaces {
		if !slices.ContainsFunc(res.Interfaces, func(i cni.Interface) bool { return i.Name == want.Name && i.Sandbox == want.Sandbox }) {
			errs = append(errs, fmt.Errorf("the result lacks the interface %s of prevResult", want.Name))
		}
	}
	for _, want := range before.IPs {
		if !slices.ContainsFunc(res.IPs, func(ip cni.IP) bool { return ip.Address == want.Address }) {
			errs = append(errs, fmt.Errorf("the result lacks the address %s of prevResult", want.Address))
		}
	}
	return errors.Join(errs...)
}

// addsOnce: a runtime doesn't ADD twice. One that does either gets a second success or an error that harms nothing.
func addsOnce(tr *trial) error {
	if _, _, err := tr.add(); err != nil {
		return err
	}
	before, err := tr.state()
	if err != nil {
		return err
	}
	a := tr.do(call{verb: cni.VerbAdd})
	if a.status == 0 {
		return nil
	}
	return errors.Join(a.refused("second ADD", 0), unchanged("the refused second ADD changed the first's", before, tr.state))
}

// deletes: DEL takes away all that ADD made, and may be repeated.
func deletes(tr *trial) error {
	before, err := tr.state()
	if err != nil {
		return err
	}
	_, raw, err := tr.add()
	if err != nil {
		return err
	}
	del := call{verb: cni.VerbDel, prev: raw}
	if err := tr.do(del).done("DEL"); err != nil {
		return err
	}
	if err := tr.left("DEL is not the opposite of ADD", before, tr.state); err != nil {
		return err
	}
	if err := tr.do(del).done("second DEL"); err != nil {
		return err
	}
	return tr.left("the second DEL changed something", before, tr.state)
}

// deletesNothing: what was never added is deleted with success.
func deletesNothing(tr *trial) error {
	before, err := tr.state()
	if err != nil {
		return err
	}
	return errors.Join(tr.do(call{verb: cni.VerbDel}).done("DEL without ADD"),
		unchanged("DEL without ADD changed something", before, tr.state))
}

// deletesBlind: without prevResult and CNI_NETNS the host's side is freed all the same.
func deletesBlind(tr *trial) error {
	before, err := tr.hostState()
	if err != nil {
		return err
	}
	if _, _, err := tr.add(); err != nil {
		return err
	}
	if err := tr.do(call{verb: cni.VerbDel, noNetNS: true}).done("DEL without prevResult and CNI_NETNS"); err != nil {
		return err
	}
	return tr.left("left on the host by DEL without prevResult and CNI_NETNS", before, tr.hostState)
}

// deletesGone: a namespace that is gone doesn't keep DEL from freeing the rest.
func deletesGone(tr *trial) error {
	_, raw, err := tr.add()
	if err != nil {
		return err
	}
	if err := tr.leave(container); err != nil {
		return err
	}
	if err := tr.do(call{verb: cni.VerbDel, netns: gone, prev: raw}).done("DEL after the namespace ended"); err != nil {
		return err
	}
	return tr.left("left by DEL after the namespace ended", tr.clean, tr.hostState)
}

// checks: CHECK succeeds right after ADD and changes nothing, and finds that a deleted attachment is gone.
func checks(tr *trial) error {
	_, raw, err := tr.add()
	if err != nil {
		return err
	}
	added, err := tr.state()
	if err != nil {
		return err
	}
	check := call{verb: cni.VerbCheck, prev: raw}
	if err := tr.do(check).done("CHECK right after ADD"); err != nil {
		return err
	}
	if err := unchanged("CHECK changed something", added, tr.state); err != nil {
		return err
	}
	if err := tr.do(call{verb: cni.VerbDel, prev: raw}).done("DEL"); err != nil {
		return err
	}
	if unchanged("", added, tr.state) == nil {
		return nil // the plugin leaves nothing that CHECK could miss
	}
	return tr.do(check).refused("CHECK after DEL", 0)
}

// collects: GC keeps what is valid and frees the rest of the host's side; a DEL that comes late finds nothing.
func collects(tr *trial) error {
	before, err := tr.hostState()
	if err != nil {
		return err
	}
	_, raw, err := tr.add()
	if err != nil {
		return err
	}
	added, err := tr.state()
	if err != nil {
		return err
	}
	valid := []cni.Attachment{{ContainerID: container, IfName: tr.c.IfName}}
	if err := tr.do(call{verb: cni.VerbGC, valid: valid}).done("GC"); err != nil {
		return err
	}
	if err := unchanged("GC took what is valid", added, tr.state); err != nil {
		return err
	}
	if err := tr.do(call{verb: cni.VerbGC, valid: []cni.Attachment{}}).done("GC with nothing valid"); err != nil {
		return err
	}
	if err := tr.left("GC left on the host what is not valid", before, tr.hostState); err != nil {
		return err
	}
	return tr.do(call{verb: cni.VerbDel, prev: raw}).done("DEL after GC")
}

// tellsStatus: an ADD would succeed, so STATUS does.
func tellsStatus(tr *trial) error {
	return tr.do(call{verb: cni.VerbStatus}).done("STATUS")
}

// refusesLater: a verb that the configuration's version doesn't have is refused with code 1.
func refusesLater(tr *trial) error {
	var errs []error
	for _, verb := range []cni.Verb{cni.VerbCheck, cni.VerbGC, cni.VerbStatus} {
		if !cni.AtLeast(tr.version, verb.Since()) {
			errs = append(errs, tr.do(call{verb: verb, valid: []cni.Attachment{}}).refused(string(verb)+" in version "+tr.version, cni.CodeIncompatibleVersion))
		}
	}
	return errors.Join(errs...)
}

// refusesWithoutTrace: the refused ADD left nothing.
func refusesWithoutTrace(tr *trial) error {
	before, err := tr.state()
	if err != nil {
		return err
	}
	return errors.Join(tr.do(call{verb: cni.VerbAdd}).refused("ADD of a result that the version can't hold", cni.CodeIncompatibleVersion),
		tr.left("left by the refused ADD", before, tr.state))
}

// refusesBadCalls: a call that isn't complete or isn't valid is refused with the specification's code and changes nothing.
func refusesBadCalls(tr *trial) error {
	before, err := tr.state()
	if err != nil {
		return err
	}
	env := func(key, value string) map[string]string { return map[string]string{key: value} }
	bad := []struct {
		name string
		call call
		code cni.Code
	}{
		{"ADD without CNI_CONTAINERID", call{verb: cni.VerbAdd, env: env("CNI_CONTAINERID", "")}, cni.CodeInvalidEnvironment},
		{"ADD without CNI_NETNS", call{verb: cni.VerbAdd, noNetNS: true}, cni.CodeInvalidEnvironment},
		{"ADD without CNI_IFNAME", call{verb: cni.VerbAdd, env: env("CNI_IFNAME", "")}, cni.CodeInvalidEnvironment},
		{"DEL without CNI_CONTAINERID", call{verb: cni.VerbDel, env: env("CNI_CONTAINERID", "")}, cni.CodeInvalidEnvironment},
		{"ADD of container ../x", call{verb: cni.VerbAdd, env: env("CNI_CONTAINERID", "../x")}, cni.CodeInvalidEnvironment},
		{"ADD of interface a/b", call{verb: cni.VerbAdd, env: env("CNI_IFNAME", "a/b")}, cni.CodeInvalidEnvironment},
		{"unknown CNI_COMMAND", call{verb: "JUMP"}, cni.CodeInvalidEnvironment},
		{"configuration that is not JSON", call{verb: cni.VerbAdd, stdin: "{"}, cni.CodeDecode},
		{"configuration of version 99.0.0", call{verb: cni.VerbAdd, stdin: fmt.Sprintf(`{"cniVersion":"99.0.0","name":"n","type":%q}`, tr.c.Info.Type)}, cni.CodeIncompatibleVersion},
		{"configuration without name", call{verb: cni.VerbAdd, stdin: fmt.Sprintf(`{"cniVersion":%q,"type":%q}`, tr.version, tr.c.Info.Type)}, cni.CodeInvalidConfig},
	}
	var errs []error
	for _, b := range bad {
		errs = append(errs, tr.do(b.call).refused(b.name, b.code), unchanged(b.name+" changed something", before, tr.state))
	}
	return errors.Join(errs...)
}

// refusesConfigs: the case's bad configurations are refused before anything is done.
func refusesConfigs(tr *trial) error {
	before, err := tr.state()
	if err != nil {
		return err
	}
	var errs []error
	for _, config := range tr.c.Refused {
		errs = append(errs, tr.do(call{verb: cni.VerbAdd, config: config}).refused("ADD with "+config, cni.CodeInvalidConfig),
			unchanged("ADD with "+config+" changed something", before, tr.state))
	}
	return errors.Join(errs...)
}

// undoes: whichever step of an ADD fails, nothing is left, and the next ADD works.
func undoes(tr *trial) error {
	w, ok := tr.world.(*inMemory)
	if !ok || tr.c.Plugin != nil {
		return nil // the kernel of this machine can't be made to fail
	}
	before, err := tr.state()
	if err != nil {
		return err
	}
	for step := 0; ; step++ {
		w.arm(step)
		a := tr.do(call{verb: cni.VerbAdd})
		reached := len(w.steps) > step
		w.arm(-1)
		if !reached {
			return nil // every step has failed once, and the last ADD succeeded
		}
		name := fmt.Sprintf("ADD whose step %d fails", step)
		if err := errors.Join(a.refused(name, 0), tr.left(name+" left something", before, tr.state)); err != nil {
			return err
		}
	}
}
