package pluginexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/internal/ownfile"
)

// Find returns the absolute path of the program of plugin typ in the first of dirs that has a usable
// one. The error is a [*cni.Error]: code 7 for a type that is no bare name, else code 4,
// with what is in the way in each folder or, if none has the name, fs.ErrNotExist and the names that are near.
func Find(typ string, dirs []string) (string, error) {
	if err := checkType(typ); err != nil {
		return "", err
	}
	dirs = slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == "" })
	if len(dirs) == 0 {
		return "", findError(typ, nil, "no plugin folder is given (CNI_PATH is empty)").
			WithHint("name the folder that holds the plugins, mostly /opt/cni/bin")
	}
	var wrong []string
	for _, dir := range dirs {
		path, problem := look(dir, typ)
		if problem == "" && path != "" {
			return path, nil
		}
		if problem != "" {
			wrong = append(wrong, problem)
		}
	}
	if len(wrong) > 0 {
		return "", findError(typ, nil, strings.Join(wrong, "; "))
	}
	return "", notFound(typ, dirs)
}

// checkType is cni.CheckType, and refuses once more what would lead out of the folders: a mistake in one check
// must not let a configuration run any program of the machine.
func checkType(typ string) error {
	if err := cni.CheckType(typ); err != nil {
		return err
	}
	if typ == "" || typ == "." || typ == ".." || strings.ContainsAny(typ, "/\\\x00") {
		return cni.Errorf(cni.CodeInvalidConfig, "type %q: not a bare file name", typ)
	}
	return nil
}

// look examines what dir has under the name: the path if it can be run, else what is wrong with
// it. Both empty: there is nothing.
func look(dir, typ string) (path, problem string) {
	dir, err := filepath.Abs(dir) // a path without a separator would be looked up in PATH
	if err != nil {
		return "", fmt.Sprintf("folder %s: %v", dir, err)
	}
	folder, err := os.Stat(dir)
	openFolder := err == nil && ownfile.OpenToAll(folder)
	for _, ext := range extensions() {
		path := filepath.Join(dir, typ+ext)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if to, err := os.Readlink(path); err == nil {
				problem = fmt.Sprintf("%s is a dead link to %s", path, to)
			}
		case err != nil:
			problem = fmt.Sprintf("%s can't be examined: %v", path, err)
		case info.IsDir():
			problem = path + " is a directory"
		case !info.Mode().IsRegular():
			problem = path + " is not a regular file"
		case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
			problem = path + " is not executable (chmod +x)"
		case ownfile.OpenToAll(info):
			problem = openToAll(path, info)
		case openFolder:
			problem = openToAll(dir, folder)
		default:
			return path, ""
		}
	}
	return "", problem
}

// openToAll says why what stands at path is not run: anybody could have put it there, and it would run as root.
func openToAll(path string, info fs.FileInfo) string {
	return fmt.Sprintf("everybody can write to %s (mode %04o), so nothing of it is run as root: chmod o-w %[1]s, after a look at who wrote what is there",
		path, info.Mode().Perm())
}

func extensions() []string {
	if runtime.GOOS == "windows" {
		return []string{".exe", ""}
	}
	return []string{""}
}

func notFound(typ string, dirs []string) error {
	var names []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a folder that isn't there holds no names
		}
		for _, e := range entries {
			names = append(names, strings.TrimSuffix(e.Name(), extensions()[0]))
		}
	}
	e := findError(typ, fs.ErrNotExist, "not found in "+strings.Join(dirs, ", "))
	if near := nearmiss.Of(typ, names); len(near) > 0 {
		return e.WithHint("did you mean %s?", strings.Join(near, " or "))
	}
	if len(names) == 0 {
		return e.WithHint("there is no plugin in these folders: install them, or name the folder they are in")
	}
	return e
}

func findError(typ string, cause error, msg string) *cni.Error {
	return &cni.Error{
		Code: cni.CodeInvalidEnvironment, Msg: fmt.Sprintf("find plugin %q: %s", typ, msg),
		Plugin: typ, Err: cause,
	}
}
