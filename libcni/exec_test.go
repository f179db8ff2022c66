//go:build unix

package libcni_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/leaktest"
	"github.com/cleat-cni/cleat/libcni"
)

// TestMain: as a child of TestKilledDuringAdd the test binary is a runtime that adds, and is killed meanwhile.
func TestMain(m *testing.M) {
	if dir := os.Getenv("LIBCNI_TEST_ADD"); dir != "" {
		os.Exit(addForever(dir))
	}
	leaktest.Main(m)
}

// programs makes plugins of shell scripts that write down how they were called, in calls of dir.
func programs(t *testing.T, scripts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for typ, body := range scripts {
		text := "#!/bin/sh\n" + `echo "$CNI_COMMAND ` + typ + ` $CNI_CONTAINERID $CNI_IFNAME $CNI_ARGS" >> ` + dir + "/calls\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(dir, typ), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func calls(t *testing.T, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(dir + "/calls")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + "/calls"); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func execKit(dir string) (*libcni.CNI, error) {
	return libcni.New(libcni.Config{
		PluginDirs: []string{"/does/not/exist", dir}, StateDir: dir + "/state", LockDir: dir + "/lock",
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

const answer = `echo '{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/16"}]}'`

func TestPrograms(t *testing.T) {
	dir := programs(t, map[string]string{
		"a": `case $CNI_COMMAND in ADD) ` + answer + `;; VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}';; esac`,
	})
	c, err := execKit(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := network(t, "1.1.0", "a")
	rt := attachment()
	rt.Args = cni.Args{{"K", "V=W"}}
	if _, err := c.AddNetworkList(t.Context(), list, rt); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		c.CheckNetworkList(t.Context(), list, rt), c.GetStatusNetworkList(t.Context(), list), c.DelNetworkList(t.Context(), list, rt),
		c.GCNetworkList(t.Context(), list, &libcni.GCArgs{}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := c.ValidateNetworkList(t.Context(), list); err != nil {
		t.Error(err)
	}
	want := []string{"ADD a c1 eth0 K=V=W", "CHECK a c1 eth0 K=V=W", "STATUS a   ", "DEL a c1 eth0 K=V=W", "GC a   ", "VERSION a dummy dummy "}
	if diff := cmp.Diff(want, calls(t, dir)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestProgramsInTime: every verb ends with its context, and a plugin that hangs in ADD gets its DEL.
func TestProgramsInTime(t *testing.T) {
	t.Parallel()
	dir := programs(t, map[string]string{"a": `case $CNI_COMMAND in DEL) ;; *) exec sleep 1000;; esac`, "b": `exec sleep 1000`})
	c, err := execKit(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	list, slow := network(t, "1.1.0", "a"), network(t, "1.1.0", "b")
	_, err = c.AddNetworkList(ctx, list, attachment())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ADD: %v", err)
	}
	if diff := cmp.Diff([]string{"ADD a c1 eth0 ", "DEL a c1 eth0 "}, calls(t, dir)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for name, f := range map[string]func(context.Context) error{
		"del":     func(ctx context.Context) error { return c.DelNetworkList(ctx, slow, attachment()) },
		"status":  func(ctx context.Context) error { return c.GetStatusNetworkList(ctx, slow) },
		"version": func(ctx context.Context) error { _, err := c.GetVersionInfo(ctx, "b"); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestStderrOfManyPlugins goes to one writer that isn't made for that.
func TestStderrOfManyPlugins(t *testing.T) {
	dir := programs(t, map[string]string{"a": "echo from-$CNI_CONTAINERID >&2; " + answer})
	var stderr bytes.Buffer
	c, err := libcni.New(libcni.Config{PluginDirs: []string{dir}, StateDir: dir + "/state", LockDir: dir + "/lock", Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	list := network(t, "1.1.0", "a")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rt := attachment()
			rt.ContainerID = fmt.Sprintf("c%d", i)
			if _, err := c.AddNetworkList(t.Context(), list, rt); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(stderr.String(), "from-c"); n != 8 {
		t.Errorf("%d of 8 lines:\n%s", n, stderr.String())
	}
}

// TestManyAtOnce: containers are independent, and what is done to one is done one after the other.
func TestManyAtOnce(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a", "b")
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			rt := attachment()
			rt.ContainerID = fmt.Sprintf("c%d", i%16)
			rt.IfName = fmt.Sprintf("eth%d", i/16)
			for range 3 {
				if _, err := k.AddNetworkList(t.Context(), list, rt); err != nil {
					t.Error(err)
				}
				if err := k.DelNetworkList(t.Context(), list, rt); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if records, intents := k.stored(t); len(records)+len(intents) > 0 {
		t.Errorf("left: %v %v", records, intents)
	}
	for _, call := range k.calls() {
		if call.Verb == cni.VerbDel && call.Prev == nil {
			t.Fatal("a DEL found no record")
		}
	}
}

// TestKilledDuringAdd: a runtime that is killed, between whichever steps, leaves what DEL and GC find and nothing that stops them.
func TestKilledDuringAdd(t *testing.T) {
	dir := programs(t, map[string]string{"a": answer, "b": answer})
	c, err := execKit(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "LIBCNI_TEST_ADD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		// Not to wait for something: to be killed at another step each time.
		timer := time.NewTimer(time.Duration(i) * 3 * time.Millisecond)
		<-timer.C
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if i%2 == 0 {
			if err := c.DelNetworkList(t.Context(), network(t, "1.1.0", "a", "b"), attachment()); err != nil {
				t.Errorf("DEL: %v", err)
			}
		} else if err := c.GCNetworkList(t.Context(), network(t, "1.1.0", "a", "b"), &libcni.GCArgs{}); err != nil {
			t.Errorf("GC: %v", err)
		}
		if left, err := c.Attachments(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("left: %+v, %v", left, err)
		}
	}
	if err := c.GCNetworkList(t.Context(), network(t, "1.1.0", "a", "b"), &libcni.GCArgs{}); err != nil {
		t.Errorf("GC: %v", err)
	}
	if left := names(t, dir+"/state/cleat/adding"); len(left) > 0 {
		t.Errorf("left after GC: %v", left)
	}
}

// addForever adds and deletes one attachment until it is killed.
func addForever(dir string) int {
	c, err := execKit(dir)
	if err != nil {
		return 1
	}
	list, err := libcni.ConfListFromBytes([]byte(`{"cniVersion":"1.1.0","name":"net1","plugins":[{"type":"a"},{"type":"b"}]}`))
	if err != nil {
		return 1
	}
	fmt.Println("ready")
	for {
		if _, err := c.AddNetworkList(context.Background(), list, attachment()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if err := c.DelNetworkList(context.Background(), list, attachment()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}
