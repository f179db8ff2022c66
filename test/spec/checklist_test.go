package spec

// rule is one line of the checklist.
type rule struct {
	id    string
	level string // MUST, SHOULD, MAY; decision: where the specification is silent or contradicts itself, what is done here
	text  string
	open  string // of a MAY that is not made use of: why. Then there is no test
}

// checklist is the specification 1.1.0 (with what its conventions and the field's library add) in rules: CF configuration, VE versions,
// RT duties of the runtime, PL of plugins, DP of delegation, RS results, EC error codes, MX which variables a verb
// requires, ID names, AR CNI_ARGS, CA the runtime's records.
func checklist() []rule {
	var all []rule
	for _, part := range [][]rule{configRules(), versionRules(), runtimeRules(), pluginRules(), resultRules(), environmentRules()} {
		all = append(all, part...)
	}
	return all
}

func configRules() []rule {
	return []rule{
		{"CF1", "MUST", "a network is one JSON object with cniVersion, cniVersions, name, disableCheck, disableGC, loadOnlyInlinedPlugins, plugins", ""},
		{"CF2", "SHOULD", "a name is there once: of two files of one name the second is not used, and that is said", ""},
		{"CF3", "MUST", "a name is [A-Za-z0-9][A-Za-z0-9_.-]*, also when it is only loaded", ""},
		{"CF4", "MUST", "disableCheck: CHECK runs nothing and succeeds", ""},
		{"CF5", "MUST", "disableGC: GC runs nothing", ""},
		{"CF6", "MUST", "by default valid plugins of other sources are appended", ""},
		{"CF7", "MUST", "loadOnlyInlinedPlugins: plugins of other sources are not used", ""},
		{"CF8", "MUST", "loadOnlyInlinedPlugins without a plugins key is invalid", ""},
		{"CF9", "decision", "where the text on plugins contradicts that on loadOnlyInlinedPlugins, the latter counts", ""},
		{"CF10", "MUST", "a plugin of another source belongs to one network: the one its folder is named after", ""},
		{"CF11", "MUST", "plugins of other sources are validated; the valid ones run", ""},
		{"CF12", "MUST", "a plugin has a type without path characters", ""},
		{"CF13", "decision", "capabilities is an optional map of booleans", ""},
		{"CF14", "SHOULD", "runtimeConfig and cni.dev/* in a configuration are not the runtime's and do not reach plugins", ""},
		{"CF15", "MUST", "fields that the runtime does not know reach the plugin unchanged", ""},
		{"CF16", "SHOULD", "ipMasq, ipam.type and dns mean what the specification says", ""},
		{"CF17", "MAY", "plugins refuse unknown fields", "they are passed over, since configurations carry fields of newer versions and of other plugins"},
		{"CF18", "decision", "flags may be the strings true and false in any case", ""},
	}
}

func versionRules() []rule {
	return []rule{
		{"VE1", "MUST", "the highest version that is spoken, of cniVersion and cniVersions, is used", ""},
		{"VE2", "MAY", "the plugins' versions are looked at: when a network is validated", ""},
		{"VE3", "MUST", "a configuration means the same in every version of a major one", ""},
		{"VE4", "MUST", "requests carry the version that was chosen", ""},
		{"VE5", "decision", "no cniVersion is 0.1.0", ""},
		{"VE6", "MUST", "a plugin refuses a version that it does not speak, with code 1", ""},
		{"VE7", "MUST", "the result is in the configuration's version", ""},
	}
}

func runtimeRules() []rule {
	return []rule{
		{"RT1", "MUST", "plugins run in the runtime's network namespace", ""},
		{"RT2", "MUST", "the container's namespace is its caller's: it is there before any plugin runs and is not removed", ""},
		{"RT3", "MUST", "no two operations on one container at once; on several containers they may run together", ""},
		{"RT4", "MUST", "no ADD or DEL during a GC", ""},
		{"RT5", "MUST", "an ADD that fails is followed by DEL", ""},
		{"RT6", "SHOULD", "no second ADD of an attachment without a DEL", ""},
		{"RT7", "SHOULD", "DEL has the configuration of the ADD, whatever the file says by then", ""},
		{"RT8", "MUST", "DEL may repeat", ""},
		{"RT9", "MUST", "plugins are searched in a list of folders, which they get as CNI_PATH", ""},
		{"RT10", "MUST", "ADD runs in the list's order; the first plugin has no prevResult, the others the result of the one before", ""},
		{"RT11", "MUST", "a program that is missing is an error of ADD, DEL, CHECK and GC", ""},
		{"RT12", "MUST", "ADD stops at the first error and returns it", ""},
		{"RT13", "MUST", "the final result is stored", ""},
		{"RT14", "MUST", "DEL runs in reverse order, with the final result for every plugin, and stops at the first error", ""},
		{"RT15", "MUST", "CHECK runs in the list's order with ADD's parameters and the final result, and stops at the first error", ""},
		{"RT16", "MUST", "no CHECK of what was not added or is deleted", ""},
		{"RT17", "MUST", "CHECK carries prevResult, or is an error", ""},
		{"RT18", "MUST", "GC runs every plugin, goes on after errors and returns all, without parameters of an attachment", ""},
		{"RT19", "MUST", "GC carries the valid attachments", ""},
		{"RT20", "MUST", "GC is no substitute for DEL: what it finds stale gets DEL first", ""},
		{"RT21", "MUST", "requests carry cniVersion and name", ""},
		{"RT22", "MUST", "runtimeConfig holds the capabilities that are declared and given", ""},
		{"RT23", "MUST", "requests have no capabilities", ""},
		{"RT24", "SHOULD", "what does not begin with cni.dev/ passes through, what does is dropped", ""},
		{"RT25", "MUST", "the environment has the six variables", ""},
		{"CA1", "MUST", "a record lies in results/ in the form that the field's library reads", ""},
		{"CA2", "decision", "a record that the field's library wrote serves CHECK and DEL, so does a bare result", ""},
		{"CA3", "MUST", "CHECK and DEL get the arguments and capabilities of the record", ""},
	}
}

func pluginRules() []rule {
	return []rule{
		{"PL1", "MUST", "exit status 0 on success, another on failure", ""},
		{"PL2", "SHOULD", "a failure prints the error object, on standard output", ""},
		{"PL3", "SHOULD", "ADD makes CNI_IFNAME in CNI_NETNS or adjusts it", ""},
		{"PL4", "MUST", "ADD prints a result", ""},
		{"PL5", "MUST", "prevResult is passed through or modified", ""},
		{"PL6", "MUST", "an interface of the name that is there already is an error", ""},
		{"PL7", "MUST", "an interface name that can't be used is an error", ""},
		{"PL8", "SHOULD", "DEL takes back what ADD did", ""},
		{"PL9", "SHOULD", "DEL without prevResult succeeds", ""},
		{"PL10", "SHOULD", "DEL succeeds when namespace, interface, lease or rules are missing, and frees the rest", ""},
		{"PL11", "MUST", "a repeated DEL succeeds", ""},
		{"PL12", "MUST", "DEL needs no CNI_NETNS", ""},
		{"PL13", "MUST", "calls for several containers run at once", ""},
		{"PL14", "MUST", "CHECK goes by prevResult, and later plugins may have changed routes, MAC and MTU", ""},
		{"PL15", "SHOULD", "CHECK finds an interface, address or route of its own missing", ""},
		{"PL16", "SHOULD", "CHECK finds rules and reservations missing", ""},
		{"PL17", "SHOULD", "CHECK finds a container that can't be reached", ""},
		{"PL18", "MUST", "CHECK works right after ADD", ""},
		{"PL19", "SHOULD", "CHECK is delegated to IPAM, and its errors are passed on", ""},
		{"PL20", "MUST", "STATUS succeeds if ADD can be served, else fails with code 50 or 51", ""},
		{"PL21", "SHOULD", "STATUS fails when addresses are used up", ""},
		{"PL22", "MUST", "other verbs work without STATUS, and when it fails", ""},
		{"PL23", "MUST", "STATUS is delegated to IPAM, and its error returned", ""},
		{"PL24", "SHOULD", "GC frees what belongs to no valid attachment, also when the namespace is gone, and nothing else", ""},
		{"PL25", "SHOULD", "GC goes on after an error and reports it", ""},
		{"PL26", "MUST", "GC is forwarded to delegated plugins", ""},
		{"PL27", "SHOULD", "VERSION needs nothing but CNI_COMMAND", ""},
		{"PL28", "decision", "GC requires CNI_COMMAND and CNI_PATH, and prints nothing on success", ""},
		{"PL29", "decision", "standard error is for logs: standard output holds the answer alone", ""},
		{"DP1", "MUST", "a delegate is found in CNI_PATH", ""},
		{"DP2", "MUST", "a delegate gets the whole environment and configuration", ""},
		{"DP3", "SHOULD", "a delegate's standard error is passed on", ""},
		{"DP4", "MUST", "CHECK, DEL, GC and STATUS run the delegate too, and its error is the caller's", ""},
		{"DP5", "SHOULD", "when the delegate's ADD fails, its DEL runs before the failure is returned", ""},
		{"DP6", "MUST", "IPAM says addresses, gateway and routes; the main plugin applies them", ""},
		{"DP7", "MUST", "an IPAM result has no interfaces and no indexes of them", ""},
	}
}

func resultRules() []rule {
	return []rule{
		{"RS1", "MUST", "a result has the keys and types of its version", ""},
		{"RS2", "SHOULD", "sandbox is CNI_NETNS for interfaces of the container and empty for those of the host", ""},
		{"RS3", "MAY", "ips holds addresses outside the container", "no plugin gives any"},
		{"RS4", "decision", "a route without gw uses the gateway of an address of its family", ""},
		{"RS5", "MUST", "a plugin that changes nothing prints a result equivalent to prevResult", ""},
		{"RS6", "MUST", "interfaces lists all that were made, the host's included", ""},
		{"RS7", "MUST", "VERSION answers with the cniVersion of its input, and the versions that are spoken", ""},
		{"RS8", "SHOULD", "an error object has cniVersion, code, msg and details", ""},
	}
}

func environmentRules() []rule {
	return []rule{
		{"EC2", "MUST", "code 2: an unsupported field, with key and value in the message", ""},
		{"EC3", "MUST", "code 3: an unknown container, which needs no clean-up", ""},
		{"EC4", "MUST", "code 4: invalid variables, with their names in the message", ""},
		{"EC5", "MUST", "code 5: standard input or the disk can't be read or written", ""},
		{"EC6", "MUST", "code 6: what is not JSON", ""},
		{"EC7", "MUST", "code 7: an invalid configuration", ""},
		{"EC8", "decision", "code 8: a namespace that is none, is gone or is the plugin's own", ""},
		{"EC11", "MUST", "code 11: try again, when addresses are used up", ""},
		{"EC100", "MUST", "codes from 100 are the plugin's own: CHECK found differences", ""},
		{"MX1", "MUST", "each verb refuses the lack of a variable it requires, naming all at once, and no other lack", ""},
		{"MX2", "MUST", "CHECK is refused below 0.4.0, GC and STATUS below 1.1.0", ""},
		{"MX3", "MUST", "an unknown CNI_COMMAND is refused", ""},
		{"ID1", "MUST", "a container ID is [A-Za-z0-9][A-Za-z0-9_.-]*, not empty", ""},
		{"ID2", "MUST", "so is a network name, for plugins too", ""},
		{"AR1", "MUST", "CNI_ARGS is pairs K=V with ; between them", ""},
		{"AR2", "decision", "a plugin that reads arguments refuses unknown ones unless IgnoreUnknown is set", ""},
		{"AR3", "decision", "arguments as Kubernetes' runtimes send them go through every plugin", ""},
	}
}
