//go:build unix

package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/plugin"
)

const script = `#!/bin/sh
case $CNI_COMMAND in
ADD) echo '{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.9/24"}]}' ;;
DEL) [ "$CNI_CONTAINERID/$CNI_IFNAME" = c1/eth0 ] && grep -q '"secret":99999999999999999999' ;;
*) echo '{"code":50,"msg":"no server for '$CNI_COMMAND'"}'; exit 1 ;;
esac
`

func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "theirs"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	req := &plugin.Request{Verb: cni.VerbAdd, ContainerID: "c1", NetNS: "/x", IfName: "eth0", Path: []string{dir}}
	conf, err := cni.ParsePluginConf([]byte(`{"cniVersion":"1.0.0","name":"n","type":"main","secret":99999999999999999999}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Conf = conf
	p, err := plugin.Programs{Env: os.Environ()}.Find("theirs", req.Path)
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Add(t.Context(), req)
	if err != nil || res.IPs[0].Address.String() != "10.1.0.9/24" {
		t.Errorf("ADD: %+v, %v", res, err)
	}
	if err := p.Del(t.Context(), req); err != nil {
		t.Errorf("DEL: the delegate did not get the whole call: %v", err)
	}
	err = p.Status(t.Context(), req)
	if e := cni.AsError(err); e.Code != 50 || e.Plugin != "theirs" || !strings.Contains(e.Msg, "STATUS") {
		t.Errorf("STATUS: %v", err)
	}
	if _, err := (plugin.Programs{}).Find("none", req.Path); err == nil {
		t.Error("a program was found that is not there")
	}
}
