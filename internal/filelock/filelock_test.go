//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/filelock"
)

// TestMain: as a child of TestHeldByAnotherProcess the test binary holds a lock until its standard input ends.
func TestMain(m *testing.M) {
	if path := os.Getenv("FILELOCK_TEST_HOLD"); path != "" {
		if _, err := filelock.Acquire(context.Background(), path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		// Ends with the parent too.
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAcquireExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "lock")
	var wg sync.WaitGroup
	var inside, total atomic.Int32 // the Go memory model knows nothing of file locks
	for range 20 {
		wg.Go(func() {
			l, err := filelock.Acquire(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d hold the lock", n)
			}
			total.Add(1)
			inside.Add(-1)
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := total.Load(); n != 20 {
		t.Errorf("%d of 20 got the lock", n)
	}
}

func TestTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := filelock.Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.Try(path); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("second Try: %v, want ErrHeld", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if l, err = filelock.Try(path); err != nil {
		t.Fatal(err)
	}
	l.Release()
}

// TestHeldByAnotherProcess: waiting ends with the context and the error names the holder; its end frees the lock, however it ends.
func TestHeldByAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FILELOCK_TEST_HOLD="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("child: %q", line)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = filelock.Acquire(ctx, path)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v doesn't match the context's", err)
	}
	if want := fmt.Sprintf("held by pid %d", cmd.Process.Pid); runtime.GOOS == "linux" && !strings.Contains(err.Error(), want) {
		t.Errorf("error %q lacks %q", err, want)
	}
	got := make(chan error)
	go func() {
		l, err := filelock.Acquire(t.Context(), path)
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := <-got; err != nil {
		t.Errorf("after the holder's end: %v", err)
	}
}

// TestFolderClearedMeanwhile: who waited for a file that is no longer there holds no lock that others see.
func TestFolderClearedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := filelock.Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	if _, err := filelock.Try(path); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("Try: %v, want ErrHeld", err)
	}
	second.Release()
}

func TestBadPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "file", "lock")} {
		if _, err := filelock.Acquire(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Acquire(%s): %v", path, err)
		}
	}
}
