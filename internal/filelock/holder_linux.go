package filelock

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lookTries is how often the list of locks is read for one that isn't in it.
const lookTries = 3

// Holder names the process that holds the lock on the file at path, from /proc/locks; "" if it isn't shown
// there (it is outside this pid namespace, or has just let go).
func Holder(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return ""
	}
	// The kernel hands the list out by the page. Where locks come and go, a line can be passed over between two of them.
	pid := ""
	for try := 0; pid == "" && try < lookTries; try++ {
		f, err := os.Open("/proc/locks")
		if err != nil {
			return ""
		}
		pid = holderIn(f, fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino))
		f.Close()
	}
	if pid == "" {
		return ""
	}
	comm, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return "pid " + pid
	}
	return "pid " + pid + " (" + strings.TrimSpace(string(comm)) + ")"
}

// holderIn finds the pid of the flock on the file id ("major:minor:inode") in the text of /proc/locks:
//
//	1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF
//
// Lines of waiters have "->" after the number and so more fields.
func holderIn(locks io.Reader, id string) string {
	for s := bufio.NewScanner(locks); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) == 8 && f[1] == "FLOCK" && f[5] == id && f[4] != "0" && f[4] != "-1" {
			return f[4]
		}
	}
	return ""
}
