package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/netns"
)

// demoConf is the demo's network; %q is the folder of its leases.
const demoConf = `{
  "cniVersion": "1.0.0",
  "name": "demo",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cleat0",
      "isGateway": true,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": %q,
        "ranges": [[{"subnet": "10.88.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

const loopbackConf = `{"cniVersion": "1.0.0", "name": "lo", "plugins": [{"type": "loopback"}]}
`

const (
	demoPodPort  = 80
	demoHostPort = 8080
)

var demoGateway = netip.MustParseAddr("10.88.0.1")

func (a *app) demoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show two pods that talk, in scratch namespaces of this machine",
		Long: `Makes three network namespaces (one that plays the host, two pods), attaches the
pods to a bridge, one with a published port, and shows ping and HTTP between
them, from the host and through the port. Then it detaches them and shows
that nothing is left. The machine's own network is not touched. Needs root
and the ping program.`,
		Example: "  sudo cleat demo",
		Args:    exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			return a.demo(ctx)
		},
	}
}

// demo is the stage. Every `cleat` in it is run as it is printed, in this process, with the scratch host
// namespace in place of the machine's.
type demo struct {
	cfg     Config
	dir     string // of configuration, records, leases and links to the namespaces
	pods    map[string]*demoPod
	host    *netns.Handle
	closers []func()
}

type demoPod struct {
	ns   *netns.Handle
	addr netip.Addr
	mac  string
}

func (a *app) demo(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return withHint(errors.New("demo: needs root, to make network namespaces"), "sudo cleat demo")
	}
	if _, err := exec.LookPath("ping"); err != nil {
		return withHint(fmt.Errorf("demo: %w", err), "install it, for example with apt-get install iputils-ping")
	}
	d := &demo{cfg: a.cfg, pods: map[string]*demoPod{"web": {}, "client": {}}}
	defer d.close()
	for _, step := range []func(context.Context) error{
		d.stage, d.attach, d.pings, d.fetches, d.picture, d.detach, d.proof,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return nil
}

func (d *demo) close() {
	for _, c := range slices.Backward(d.closers) {
		c()
	}
}

// stage makes the folders and namespaces.
func (d *demo) stage(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "cleat-demo-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	d.dir = dir
	d.closers = append(d.closers, func() { os.RemoveAll(dir) })
	conf := fmt.Sprintf(demoConf, d.path("leases"))
	for file, text := range map[string]string{"net.d/10-demo.conflist": conf, "lo.d/10-lo.conflist": loopbackConf} {
		if err := os.MkdirAll(filepath.Dir(d.path(file)), 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if err := os.WriteFile(d.path(file), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	if d.host, err = d.namespace("host"); err != nil {
		return err
	}
	for name, pod := range d.pods {
		if pod.ns, err = d.namespace(name); err != nil {
			return err
		}
	}
	d.say("Three scratch namespaces, a host and the pods web and client, and this network:")
	d.shown(conf)
	// The host's own loopback is brought up by the loopback plugin, as if the host were a pod of web.
	_, err = d.run(ctx, d.pods["web"].ns, "--conf-dir", d.path("lo.d"), "--state-dir", d.path("lo"), "add", "lo", "host", "-i", "lo")
	return err
}

// namespace makes a namespace and links its name to it.
func (d *demo) namespace(name string) (*netns.Handle, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, func() { ns.Close() })
	if err := os.MkdirAll(d.path("netns"), 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	if err := os.Symlink(ns.Path(), d.path("netns/"+name)); err != nil {
		return nil, fmt.Errorf("name namespace: %w", err)
	}
	return ns, nil
}

func (d *demo) attach(ctx context.Context) error {
	d.say("What an attachment would do; nothing is changed:")
	publish := fmt.Sprintf("%d:%d", demoHostPort, demoPodPort)
	if err := d.cleat(ctx, "plan", "demo", "web", "--publish", publish); err != nil {
		return err
	}
	d.say("Attach both pods, web with a published port:")
	if err := d.cleat(ctx, "add", "demo", "web", "--publish", publish); err != nil {
		return err
	}
	if err := d.cleat(ctx, "add", "demo", "client"); err != nil {
		return err
	}
	return d.learn(ctx)
}

// learn asks what addresses the pods got.
func (d *demo) learn(ctx context.Context) error {
	out, err := d.run(ctx, d.host, "ls", "-o", "json")
	if err != nil {
		return err
	}
	var views []attachmentView
	if err := json.Unmarshal([]byte(out), &views); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	for _, v := range views {
		pod := d.pods[filepath.Base(v.NetNS)]
		if pod == nil || len(v.IPs) == 0 {
			return fmt.Errorf("attachment %s of %s has no address", v.ContainerID, v.NetNS)
		}
		prefix, err := netip.ParsePrefix(v.IPs[0])
		if err != nil {
			return fmt.Errorf("read list: %w", err)
		}
		pod.addr, pod.mac = prefix.Addr(), v.MAC
	}
	return nil
}

func (d *demo) pings(ctx context.Context) error {
	d.say("Ping, pod to pod and host to pod:")
	web := d.pods["web"].addr
	for _, from := range []struct {
		name string
		ns   *netns.Handle
	}{{"client", d.pods["client"].ns}, {"host", d.host}} {
		d.typed("ip netns exec %s ping %s", from.name, strings.Join(pingArgs(web), " "))
		out, err := ping(ctx, from.ns, web)
		if err != nil {
			return err
		}
		d.shown(out)
	}
	return nil
}

func (d *demo) fetches(ctx context.Context) error {
	d.say("A web server in web; fetch from it directly and through the published port:")
	web, client := d.pods["web"], d.pods["client"]
	stop, err := serve(web.ns, "web", demoPodPort)
	if err != nil {
		return err
	}
	defer stop()
	local := netip.MustParseAddr("127.0.0.1")
	for _, f := range []struct {
		from string
		ns   *netns.Handle
		to   netip.AddrPort
	}{
		{"client", client.ns, netip.AddrPortFrom(web.addr, demoPodPort)},
		{"client", client.ns, netip.AddrPortFrom(demoGateway, demoHostPort)},
		{"host", d.host, netip.AddrPortFrom(demoGateway, demoHostPort)},
		{"host", d.host, netip.AddrPortFrom(local, demoHostPort)},
		{"web", web.ns, netip.AddrPortFrom(demoGateway, demoHostPort)},
	} {
		d.typed("ip netns exec %s curl http://%s/", f.from, f.to)
		body, err := fetch(ctx, f.ns, f.to)
		if err != nil {
			return fmt.Errorf("from %s: %w", f.from, err)
		}
		d.shown(body)
	}
	return nil
}

func (d *demo) picture(ctx context.Context) error {
	d.say("What is attached:")
	if err := d.cleat(ctx, "ls"); err != nil {
		return err
	}
	if err := d.cleat(ctx, "check", "--all"); err != nil {
		return err
	}
	web, client := d.pods["web"], d.pods["client"]
	fmt.Fprintf(d.cfg.Stdout, `
  +-- web ---------------+   +-- client ------------+
  | eth0 %-15s |   | eth0 %-15s |
  +----------+-----------+   +-----------+----------+
             | veth                      | veth
  +----------+---------------------------+----------+
  | cleat0 %-15s (bridge)                 |
  |                                                 |
  | host:%d --> %-33s |
  +-- host -----------------------------------------+
`, web.addr, client.addr, demoGateway, demoHostPort, netip.AddrPortFrom(web.addr, demoPodPort))
	return nil
}

func (d *demo) detach(ctx context.Context) error {
	d.say("Detach both:")
	if err := d.cleat(ctx, "del", "demo", "web"); err != nil {
		return err
	}
	return d.cleat(ctx, "del", "demo", "client")
}

// proof looks for what could be left: interfaces, whatever carries the network's mark, leases, records.
func (d *demo) proof(ctx context.Context) error {
	d.say("What is left:")
	if err := d.cleat(ctx, "ls"); err != nil {
		return err
	}
	links, err := interfaces(d.host)
	if err != nil {
		return err
	}
	// The bridge belongs to the network, not to a pod, and stays by design.
	others := slices.DeleteFunc(slices.Clone(links), func(n string) bool { return n == "lo" || n == "cleat0" })
	runner, err := d.cfg.NewRunner(RunnerOptions{Host: d.host, StateDir: d.path("state"), Log: slog.New(slog.DiscardHandler), Stderr: d.cfg.Stderr})
	if err != nil {
		return err
	}
	owned, err := runner.Owned(ctx, "demo")
	if err != nil {
		return err
	}
	leases, err := filepath.Glob(d.path("leases/demo/10.*"))
	if err != nil {
		return err
	}
	records, err := filepath.Glob(d.path("state/results/*"))
	if err != nil {
		return err
	}
	d.shown(fmt.Sprintf("interfaces of the host          %s (the bridge stays, by design)\n"+
		"links and nft elements of demo  %d\nleases of addresses             %d\nrecords                         %d\n",
		strings.Join(links, " "), len(owned), len(leases), len(records)))
	if len(others)+len(owned)+len(leases)+len(records) > 0 {
		return fmt.Errorf("something is left: %v %v %v %v", others, owned, leases, records)
	}
	d.say("Nothing is left. The namespaces end with this program.")
	return nil
}

// cleat prints a command and runs it.
func (d *demo) cleat(ctx context.Context, args ...string) error {
	d.typed("cleat %s", strings.Join(args, " "))
	out, err := d.run(ctx, d.host, args...)
	d.shown(out)
	if err != nil {
		return fmt.Errorf("cleat %s: %w", args[0], err)
	}
	return nil
}

// run runs a command of this program with the scratch host namespace and folders, and returns what it
// printed.
func (d *demo) run(ctx context.Context, host *netns.Handle, args ...string) (string, error) {
	var out bytes.Buffer
	cfg := d.cfg
	cfg.Stdout = &out
	cfg.NetNSDir, cfg.LockDir = d.path("netns"), d.path("lock")
	cfg.Env = func(string) string { return "" }
	cfg.Args = append([]string{"--conf-dir", d.path("net.d"), "--state-dir", d.path("state"), "--builtin"}, args...)
	cfg.NewRunner = func(o RunnerOptions) (*builtin.Runner, error) {
		o.Host = host
		return d.cfg.NewRunner(o)
	}
	_, err := execute(ctx, cfg)
	return out.String(), err
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// say prints a heading.
func (d *demo) say(text string) { fmt.Fprintf(d.cfg.Stdout, "\n%s\n\n", text) }

// typed prints a command as one would type it.
func (d *demo) typed(format string, args ...any) {
	fmt.Fprintf(d.cfg.Stdout, "$ "+format+"\n", args...)
}

// shown prints what a command said, moved in.
func (d *demo) shown(text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Fprintf(d.cfg.Stdout, "  %s\n", line)
		}
	}
}
