package libcni

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/ownfile"
)

// maxConfFile is the size of the largest configuration file that is read, in bytes.
const maxConfFile = 1 << 20

// The endings of configuration files. By them files are looked up in order; whether one holds a list or one plugin its
// content says.
var (
	listExtensions   = []string{".conflist"}
	singleExtensions = []string{".conf", ".json"}
)

// ConfFiles returns the paths of the configuration files in dir, sorted by name: regular files, or links to such, that
// end in one of extensions and don't begin with . or #. A folder that doesn't exist has none.
func ConfFiles(dir string, extensions []string) ([]string, error) {
	files, _, err := scan(dir, extensions)
	return files, err
}

// scan is ConfFiles, and what has the name of a configuration file but can't be read as one.
func scan(dir string, extensions []string) (files []string, ignored []IgnoredFile, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list configuration files: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list configuration files: %w", err)
	}
	if err := refuseOpen(dir, info); err != nil {
		return nil, nil, err
	}
	for _, e := range entries { // ReadDir sorts
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || !slices.Contains(extensions, filepath.Ext(name)) {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			ignored = append(ignored, IgnoredFile{path, fmt.Errorf("open configuration: %w", err)})
		case info.IsDir():
			ignored = append(ignored, IgnoredFile{path, errFolder})
		case !info.Mode().IsRegular():
			ignored = append(ignored, IgnoredFile{path, errors.New("not a regular file")})
		default:
			files = append(files, path)
		}
	}
	return files, ignored, nil
}

// errFolder is a folder that has the name of a configuration file.
var errFolder = errors.New("a folder, not a file")

// refuseOpen refuses a file or folder that everybody can write to, where what a configuration or a record says is done as root.
func refuseOpen(path string, info fs.FileInfo) error {
	if !ownfile.OpenToAll(info) {
		return nil
	}
	perm := info.Mode().Perm()
	return cni.Errorf(cni.CodeInvalidConfig, "%s: everybody can write to it (mode %04o), and what is written there is done as root: chmod o-w it", path, perm).
		WithHint("chmod o-w %s, after a look at who wrote what is there", path)
}

// ConfListFromFile reads the network configuration in a file. Unless it says loadOnlyInlinedPlugins, the plugin configurations
// <folder of the file>/<network name>/*.conf are appended in the order of their names; those of them that are invalid are in
// Skipped. A list that has no plugin then is an error. Errors name the file, and the place where the text is at fault.
func ConfListFromFile(file string) (*NetworkConfigList, error) {
	data, err := readConf(file)
	if err != nil {
		return nil, err
	}
	list, err := ConfListFromBytes(data)
	if err != nil {
		return nil, inFile(file, err)
	}
	list.Source = file
	if !list.LoadOnlyInlinedPlugins && !list.Single {
		more, skipped, err := siblings(filepath.Dir(file), list.Name)
		if err != nil {
			return nil, inFile(file, err)
		}
		list.Plugins = append(list.Plugins, more...)
		list.Skipped = skipped
	}
	if len(list.Plugins) == 0 {
		return nil, inFile(file, cni.Errorf(cni.CodeInvalidConfig, "network %s has no plugins", list.Name))
	}
	return list, nil
}

// ConfFromFile reads the configuration of one plugin in a file.
func ConfFromFile(file string) (*PluginConfig, error) {
	data, err := readConf(file)
	if err != nil {
		return nil, err
	}
	conf, err := ConfFromBytes(data)
	if err != nil {
		return nil, inFile(file, err)
	}
	conf.Source = file
	return conf, nil
}

// NetworkPluginConfsFromFiles reads the plugin configurations <dir>/<network>/*.conf, sorted by name. Beside those that are valid it
// returns the faults of those that are not. A folder that doesn't exist has none.
func NetworkPluginConfsFromFiles(dir, network string) ([]*PluginConfig, error) {
	confs, skipped, err := siblings(dir, network)
	errs := []error{err}
	for _, s := range skipped {
		errs = append(errs, s.Err)
	}
	return confs, errors.Join(errs...)
}

func siblings(dir, network string) ([]*PluginConfig, []IgnoredFile, error) {
	if err := cni.CheckNetworkName(network); err != nil { // it becomes part of a path
		return nil, nil, err
	}
	folder := filepath.Join(dir, network)
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return nil, nil, nil // a file that happens to have the network's name
	}
	files, skipped, err := scan(folder, []string{".conf"})
	if err != nil {
		return nil, nil, err
	}
	var confs []*PluginConfig
	for _, file := range files {
		conf, err := ConfFromFile(file)
		if err != nil {
			skipped = append(skipped, IgnoredFile{file, err})
			continue
		}
		confs = append(confs, conf)
	}
	return confs, skipped, nil
}

// readConf reads a regular file of at most maxConfFile bytes, which not everybody can write to.
func readConf(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("open configuration: %w", err)
	}
	if !info.Mode().IsRegular() { // opening a FIFO would wait for its writer
		return nil, fmt.Errorf("open configuration: %s: not a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open configuration: %w", err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, fmt.Errorf("open configuration: %w", err)
	}
	if err := refuseOpen(file, info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > maxConfFile {
		return nil, inFile(file, cni.Errorf(cni.CodeInvalidConfig, "configuration is larger than %d KiB", maxConfFile>>10))
	}
	return data, nil
}

// inFile adds the file's name to a fault found in its content.
func inFile(file string, err error) error {
	if at, ok := errors.AsType[*cni.SyntaxError](err); ok {
		at.File = file
		return err
	}
	return fmt.Errorf("%s: %w", file, err)
}
