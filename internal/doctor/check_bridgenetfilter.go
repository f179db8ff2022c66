package doctor

import "strings"

// bridgeNetfilter looks whether frames of a bridge pass iptables.
func bridgeNetfilter() Check {
	return Check{
		Name: "bridge-netfilter", Looks: "net.bridge.bridge-nf-call-iptables of the module br_netfilter",
		Why: "With 1, what two pods of one bridge say to each other passes iptables' FORWARD, and is dropped where that " +
			"drops. kube-proxy needs it all the same: without, a pod that calls a Service whose pod is on its own node gets " +
			"no answer.",
		Mend: "let pods through (the plugin firewall does), or set it to 0 where no kube-proxy runs",
		Good: "frames of bridges pass iptables just where they should",
		find: func(f *Facts) []Result {
			const name = "net/bridge/bridge-nf-call-iptables"
			kube := f.has("var/lib/kubelet/config.yaml")
			switch on := f.sysctl(name) == "1"; {
			case on && f.filters() && len(f.without("firewall")) > 0:
				return []Result{warning("frames of bridges pass iptables' FORWARD, and no plugin lets those of %s "+
					"through", strings.Join(f.without("firewall"), ", "))}
			case !on && kube && len(f.bridges()) > 0:
				return []Result{warning("a kubelet runs here, and frames of bridges do not pass iptables, as kube-proxy needs it").
					with("modprobe br_netfilter && sysctl -w net.bridge.bridge-nf-call-iptables=1")}
			}
			return nil
		},
	}
}

// filters reports whether iptables has a chain FORWARD that could drop.
func (f *Facts) filters() bool {
	return len(f.Kernel.Forward) > 0 || strings.Contains(f.text("proc/net/ip_tables_names"), "filter")
}
