// Package mountinfo reads what is mounted where (proc_pid_mountinfo(5)).
package mountinfo

import (
	"bufio"
	"bytes"
	"os"
	"strings"
)

// Mount is a line of /proc/<pid>/mountinfo.
type Mount struct {
	Point   string // where
	Kind    string // of the file system
	Options string // the superblock's, separated by commas
}

// Read returns the mounts of this process, in the order in which they were made.
func Read() ([]Mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return Parse(data), nil
}

// Parse reads the lines of mountinfo; what is none is passed over.
func Parse(data []byte) []Mount {
	const longest = 1 << 20
	var list []Mount
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, longest)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if ok && len(place) >= 5 && len(kind) >= 3 {
			list = append(list, Mount{unescape(place[4]), kind[0], kind[2]})
		}
	}
	return list
}

// unescape puts back what stands as \ooo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// Below returns the points of mounts at a folder and below it, the last made first: in that order they can be taken away.
func Below(mounts []Mount, dir string) []string {
	var list []string
	for _, m := range mounts {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			list = append([]string{m.Point}, list...)
		}
	}
	return list
}
