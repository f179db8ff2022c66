package libcni

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/internal/nearmiss"
)

// Dir is what a configuration folder holds.
type Dir struct {
	Path string
	// Networks are the valid ones in the order in which a name is looked up: files ending in .conflist sorted
	// by name, then .conf and .json. Of several of one name only the first is here.
	Networks []*NetworkConfigList
	// Ignored are the files that are not used, and why: invalid, not regular, writable by everybody, or of a name that an
	// earlier one has. Files with other endings, and those that begin with . or #, are not looked at.
	Ignored []IgnoredFile
}

// LoadDir reads a configuration folder. A folder that doesn't exist is empty; an error is one that can't be listed, or, for root,
// that everybody can write to: what is configured runs as root.
func LoadDir(dir string) (*Dir, error) {
	d := &Dir{Path: dir}
	named := make(map[string]*NetworkConfigList)
	for _, extensions := range [][]string{listExtensions, singleExtensions} {
		files, ignored, err := scan(dir, extensions)
		if err != nil {
			return nil, err
		}
		d.Ignored = append(d.Ignored, ignored...)
		for _, file := range files {
			list, err := ConfListFromFile(file)
			if err != nil {
				d.Ignored = append(d.Ignored, IgnoredFile{file, err})
				continue
			}
			d.Ignored = append(d.Ignored, list.Skipped...)
			if first := named[list.Name]; first != nil {
				d.Ignored = append(d.Ignored, IgnoredFile{file, fmt.Errorf("network %q is already configured in %s", list.Name, first.Source)})
				continue
			}
			named[list.Name] = list
			d.Networks = append(d.Networks, list)
		}
	}
	// A network's own folder of plugins may be named like a file.
	d.Ignored = slices.DeleteFunc(d.Ignored, func(f IgnoredFile) bool {
		return errors.Is(f.Err, errFolder) && named[filepath.Base(f.File)] != nil
	})
	return d, nil
}

// Default returns the network that container runtimes take when none is named: that of the file whose name sorts first, whatever
// its ending; nil if there is none.
func (d *Dir) Default() *NetworkConfigList {
	var first *NetworkConfigList
	for _, list := range d.Networks {
		if first == nil || filepath.Base(list.Source) < filepath.Base(first.Source) {
			first = list
		}
	}
	return first
}

// Network returns the network of a name. If there is none, the error is a [NotFoundError], or a
// [NoConfigsFoundError] if the folder has no configuration file at all.
func (d *Dir) Network(name string) (*NetworkConfigList, error) {
	var names []string
	for _, list := range d.Networks {
		if list.Name == name {
			return list, nil
		}
		names = append(names, list.Name)
	}
	if len(d.Networks) == 0 && len(d.Ignored) == 0 {
		return nil, NoConfigsFoundError{Dir: d.Path}
	}
	return nil, NotFoundError{Dir: d.Path, Name: name, Names: names, Ignored: d.Ignored}
}

// LoadConfList returns the network called name of a configuration folder: [Dir.Network] of [LoadDir].
func LoadConfList(dir, name string) (*NetworkConfigList, error) {
	d, err := LoadDir(dir)
	if err != nil {
		return nil, err
	}
	return d.Network(name)
}

// LoadConf returns the configuration of the only plugin of network name, from a file that holds one plugin's
// configuration and no list.
func LoadConf(dir, name string) (*PluginConfig, error) {
	list, err := LoadConfList(dir, name)
	if err != nil {
		return nil, err
	}
	if !list.Single {
		return nil, fmt.Errorf("network %s: %s: %w", name, list.Source, errIsList)
	}
	return list.Plugins[0], nil
}

var errIsList = errors.New("holds a list of plugins, not one plugin's configuration")

// NotFoundError says that no configuration in Dir has the name, which names there are, and which files were not used,
// since the one that is missing may be among them.
type NotFoundError struct {
	Dir, Name string
	Names     []string
	Ignored   []IgnoredFile
}

// Error says all of it.
func (e NotFoundError) Error() string {
	text := fmt.Sprintf("no network %q in %s", e.Name, e.Dir)
	if near := nearmiss.Of(e.Name, e.Names); len(near) > 0 {
		text += ", did you mean " + strings.Join(near, " or ") + "?"
	} else if len(e.Names) > 0 {
		text += ", which has " + strings.Join(e.Names, ", ")
	}
	return text + skippedText(e.Ignored)
}

// NoConfigsFoundError says that Dir has no network configuration.
type NoConfigsFoundError struct{ Dir string }

// Error names the folder.
func (e NoConfigsFoundError) Error() string { return "no network configurations in " + e.Dir }

func skippedText(ignored []IgnoredFile) string {
	var b strings.Builder
	for i, f := range ignored {
		if i == 0 {
			b.WriteString("; not used: ")
		} else {
			b.WriteString("; ")
		}
		b.WriteString(f.String())
	}
	return b.String()
}
