//go:build peers && linux

package peers_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// twin is a host with the chain's plugins of one side, a machine outside, and two pods. Its subnet, its addresses and its ports are the
// other twin's too.
type twin struct {
	side
	chain       chain
	host, world *netns.Handle
	pods        map[string]*netns.Handle
	addrs       map[string]string
	names       map[string]string // what things are called here, and for what they are
	seen        map[string]string // what there is to be seen, by what it is
}

const (
	twinGateway = "10.83.0.1"
	twinUplink  = "192.0.2.1"
	twinPort    = 8080
)

// newTwin makes a host that drops what it forwards, as one with Docker does.
func newTwin(t *testing.T, p programs, plugins string, c chain) *twin {
	t.Helper()
	w := &twin{chain: c, host: sandbox.Namespace(t), pods: map[string]*netns.Handle{}, addrs: map[string]string{}, seen: map[string]string{},
		names: map[string]string{}}
	w.side = side{t, p.cnitool, plugins, c.write(t), c.name}
	w.onHost("ip link set lo up")
	dropForwarded(t, w.host)
	w.world = worldOf(t, c.name+"-world", w.host)
	w.in(w.world, "ip route add 10.83.0.0/24 via "+twinUplink)
	return w
}

// onHost runs a command on the host, and returns what it prints.
func (w *twin) onHost(line string) string { w.t.Helper(); return w.in(w.host, line) }

func (w *twin) in(ns *netns.Handle, line string) string {
	w.t.Helper()
	return inNS(w.t, ns, line)
}

// attach attaches a pod that serves HTTP, and returns the result.
func (w *twin) attach(pod string, port int) []byte {
	w.t.Helper()
	ns := w.chain.name + "-" + pod
	w.pods[pod] = namespace(w.t, ns)
	w.in(w.pods[pod], "ip link set lo up")
	result := w.run("add", ns, port)
	w.run("check", ns, port)
	w.addrs[pod] = address(w.t, result)
	w.answer(w.pods[pod])
	return result
}

func (w *twin) run(verb, ns string, port int) []byte {
	w.t.Helper()
	var out []byte
	err := w.host.Do(func() (err error) {
		out, err = w.do(verb, ns, fmt.Sprintf(`CAP_ARGS={"portMappings":[{"hostPort":%d,"containerPort":80,"protocol":"tcp"}]}`, port))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// answer has a pod tell everybody from where they come.
func (w *twin) answer(pod *netns.Handle) {
	w.t.Helper()
	err := pod.Do(func() error {
		l, err := net.Listen("tcp4", ":80")
		if err != nil {
			return err
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			fmt.Fprint(out, host)
		})}
		go srv.Serve(l)
		w.t.Cleanup(func() { srv.Close() })
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// note notes what something is, by names that both twins have for it.
func (w *twin) note(value, format string, args ...any) {
	for _, name := range slices.SortedFunc(maps.Keys(w.names), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		value = strings.ReplaceAll(value, name, w.names[name])
	}
	w.seen[fmt.Sprintf(format, args...)] = value
}

// portray looks at all that the chain has made for a pod.
func (w *twin) portray(result []byte) {
	w.t.Helper()
	w.name(result)
	var r any
	if err := json.Unmarshal(result, &r); err != nil {
		w.t.Fatal(err)
	}
	mtus := regexp.MustCompile(`^/interfaces/\d+/mtu$`)
	for path, value := range leaves("", r) {
		if mtus.MatchString(path) {
			path, value = "/interfaces/*/mtu", "its own"
		}
		w.note(value, "result%s", path)
	}
	w.lookAt(w.host, "bridge", w.chain.bridge)
	for name, role := range w.names {
		if role == "HOSTEND" || role == "IFB" {
			w.lookAt(w.host, strings.ToLower(role), name)
		}
	}
	w.lookAt(w.pods["one"], "pod", "eth0")
	w.sysctls(w.host, "host", "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv6/conf/all/accept_ra", "net/bridge")
	w.sysctls(w.pods["one"], "pod", "net/core", "net/ipv4/ip_forward", "net/ipv4/conf/all", "net/ipv6/conf/all")
	var limits string
	if err := w.host.Do(func() error { limits = limitsOf(w.t, result, w.chain.bridge); return nil }); err != nil {
		w.t.Fatal(err)
	}
	w.note(limits, "limits")
	w.reachability()
}

// detach detaches a pod, twice as runtimes do, and notes what is left of it.
func (w *twin) detach(pod string, port int) {
	w.t.Helper()
	for range 2 {
		w.run("del", w.chain.name+"-"+pod, port)
	}
	for place, ns := range map[string]*netns.Handle{"host": w.host, "pod": w.pods[pod]} {
		names := []string{}
		for line := range strings.Lines(w.in(ns, "ip -o link show")) {
			names = append(names, strings.Trim(strings.Fields(line)[1], ":"))
		}
		names = slices.DeleteFunc(names, func(n string) bool { return w.names[strings.Split(n, "@")[0]] == "" && n != "eth0" })
		w.note(strings.Join(names, " "), "left links %s", place)
	}
	w.sysctls(w.pods[pod], "left pod", "net/core/somaxconn", "net/ipv4/ip_forward")
	w.sysctls(w.host, "left host", "net/ipv4/ip_forward", "net/ipv4/conf/"+w.chain.bridge)
	w.note(answered(w.host, net.JoinHostPort(twinUplink, strconv.Itoa(twinPort))), "left reach host to the port at the uplink")
}

// name learns what the interfaces of a result are called and are for.
func (w *twin) name(result []byte) {
	w.t.Helper()
	var r struct {
		Interfaces []struct{ Name, Mac, Sandbox string }
	}
	if err := json.Unmarshal(result, &r); err != nil {
		w.t.Fatal(err)
	}
	for _, dev := range r.Interfaces {
		role := "IFB"
		switch {
		case dev.Sandbox != "":
			role = "THE POD'S END"
			w.names[dev.Sandbox] = "POD"
		case dev.Name == w.chain.bridge:
			role = "BRIDGE"
		case strings.HasPrefix(dev.Name, "veth"):
			role = "HOSTEND"
		}
		if dev.Sandbox == "" {
			w.names[dev.Name] = role
		}
		if dev.Mac != "" {
			w.names[dev.Mac] = "MAC OF " + role
		}
	}
	w.names[w.chain.name] = "NETWORK"
}

// changing are values of a link that say nothing of how it was set up.
var changing = regexp.MustCompile(
	`ifindex|link_index|link_netnsid|_timer$|designated|_id$|ifalias|^/link$|group_addr|broadcast|permaddr`)

// queues are numbers of a link's queues.
var queues = regexp.MustCompile(`^/num_[rt]x_queues$`)

// lookAt notes an interface, its addresses, routes and sysctls.
func (w *twin) lookAt(ns *netns.Handle, role, name string) {
	w.t.Helper()
	decode := func(line string) []map[string]any {
		w.t.Helper()
		var list []map[string]any
		if err := json.Unmarshal([]byte(w.in(ns, line)), &list); err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		return list
	}
	for path, value := range leaves("", map[string]any(decode("ip -d -j link show dev " + name)[0])) {
		if queues.MatchString(path) && value != "1" {
			value = "one a processor"
		}
		if !changing.MatchString(path) {
			w.note(value, "link %s %s", role, path[1:])
		}
	}
	for _, a := range decode("ip -j addr show dev " + name)[0]["addr_info"].([]any) {
		info := a.(map[string]any)
		if info["scope"] == "link" {
			info["local"] = "its own"
		}
		delete(info, "tentative") // while the kernel looks for a duplicate
		w.note(words(info), "address %s %v", role, info["local"])
	}
	for _, family := range []string{"-4", "-6"} {
		for _, r := range decode("ip " + family + " -j route show table all dev " + name) {
			if dst := fmt.Sprint(r["dst"]); !strings.HasPrefix(dst, "fe80") && !strings.HasPrefix(dst, "ff00") {
				w.note(words(r), "route %s %v", role, r["dst"])
			}
		}
	}
	w.sysctls(ns, role, "net/ipv4/conf/"+name, "net/ipv6/conf/"+name)
}

// sysctls notes values, or all below a folder.
func (w *twin) sysctls(ns *netns.Handle, role string, names ...string) {
	w.t.Helper()
	err := ns.Do(func() error {
		for _, top := range names {
			err := filepath.WalkDir("/proc/sys/"+top, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return nil // what this kernel or namespace lacks
				}
				text, err := os.ReadFile(path)
				name, _ := strings.CutPrefix(path, "/proc/sys/")
				if err == nil && !strings.HasSuffix(name, "stable_secret") {
					w.note(strings.TrimSpace(string(text)), "sysctl %s %s", role, w.generic(name))
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// generic is a name in which what the interface is called is left out.
func (w *twin) generic(name string) string {
	parts := strings.Split(name, "/")
	if len(parts) > 3 && parts[2] == "conf" && parts[3] != "all" {
		parts[3] = "*"
	}
	return strings.Join(parts, "/")
}

// reachability notes who reaches whom, and as whom.
func (w *twin) reachability() {
	w.t.Helper()
	port := func(host string) string { return net.JoinHostPort(host, strconv.Itoa(twinPort)) }
	for from, ns := range map[string]*netns.Handle{"host": w.host, "world": w.world, "pod one": w.pods["one"], "pod two": w.pods["two"]} {
		targets := map[string]string{"the port at the uplink": port(twinUplink), "pod one": net.JoinHostPort(w.addrs["one"], "80")}
		if from != "world" {
			targets["the port at the bridge"] = port(twinGateway)
			targets["the world"] = "192.0.2.9:80"
		}
		if from == "host" {
			targets["the port at 127.0.0.1"] = port("127.0.0.1")
		}
		for to, addr := range targets {
			w.note(answered(ns, addr), "reach %s to %s", from, to)
		}
	}
}

// answered is as whom the server at addr saw who asks from a namespace.
func answered(ns *netns.Handle, addr string) string {
	const long = 700 * time.Millisecond
	answer := "nothing"
	// The thread has to be in the namespace when the socket is made.
	err := ns.Do(func() error {
		conn, err := net.DialTimeout("tcp4", addr, long)
		if err != nil {
			return nil // dropped
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(long)); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		text, err := io.ReadAll(conn)
		_, body, _ := strings.Cut(string(text), "\r\n\r\n")
		answer = "as " + body
		return err
	})
	if err != nil {
		return err.Error()
	}
	return answer
}

// words are the values of an object with their names.
func words(object map[string]any) string {
	var all []string
	for path, value := range leaves("", object) {
		if !strings.HasSuffix(path, "life_time") && path != "/local" && path != "/dst" {
			all = append(all, path[1:]+" "+value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// leaves are the values in a decoded JSON text by where they stand. Flags count by their name.
func leaves(path string, value any) map[string]string {
	all := map[string]string{}
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			maps.Copy(all, leaves(path+"/"+key, member))
		}
	case []any:
		for i, member := range v {
			if text, is := member.(string); is {
				all[path+"/"+text] = "there"
				continue
			}
			maps.Copy(all, leaves(fmt.Sprintf("%s/%d", path, i), member))
		}
	default:
		all[path] = fmt.Sprint(v)
	}
	return all
}

// TestChainIsEquivalent: the same configuration through the reference's plugins and ours, on hosts that are twins: links, addresses,
// routes, queues, filters, sysctls, the result, who reaches whom, and what is left. What is not the same stands in
// docs/differences.md, each with its reason, and what stands there is not the same.
func TestChainIsEquivalent(t *testing.T) {
	p := build(t)
	known := readDifferences(t)
	met := map[string]bool{}
	for _, backend := range []string{"nftables", "iptables"} {
		t.Run(backend, func(t *testing.T) {
			var seen []map[string]string
			for _, s := range []struct{ name, plugins, firewall string }{{"ref", p.reference, "iptables"}, {"our", p.ours, backend}} {
				c := chain{name: s.name + backend[:3], bridge: "tw" + s.name, subnet: "10.83.0.0/24", backend: backend, firewall: s.firewall}
				w := newTwin(t, p, s.plugins, c)
				result := w.attach("one", twinPort)
				w.attach("two", twinPort+1)
				w.portray(result)
				w.detach("one", twinPort)
				seen = append(seen, w.seen)
			}
			all := maps.Clone(seen[0])
			maps.Copy(all, seen[1])
			for _, key := range slices.Sorted(maps.Keys(all)) {
				reference, ours := cmp.Or(seen[0][key], "none"), cmp.Or(seen[1][key], "none")
				if reference == ours {
					continue
				}
				met[key] = true
				if d, is := known[key]; !is || d.reference != reference || d.ours != ours {
					t.Errorf("| `%s` | %s | %s | |, and docs/differences.md has %+v", key, reference, ours, d)
				}
			}
		})
	}
	for key := range known {
		if !met[key] {
			t.Errorf("docs/differences.md names `%s`, and it is the same", key)
		}
	}
}

// difference is a row of the documentation.
type difference struct{ reference, ours, why string }

// readDifferences reads the table of the section on the chain, by what differs.
func readDifferences(t *testing.T) map[string]difference {
	t.Helper()
	text, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The chain as a whole\n")
	section, _, _ = strings.Cut(section, "\n## ")
	known := map[string]difference{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 || !strings.Contains(cells[0], "`") {
			continue
		}
		d := difference{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}
		if d.why == "" {
			t.Errorf("no reason: %s", line)
		}
		known[strings.Trim(cells[0], " `")] = d
	}
	return known
}
