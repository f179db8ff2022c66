// Package originals keeps on disk, from ADD to DEL, how things were that an attachment changes.
//
// An owner's file is named as the reference's tuning plugin names it, <container>_<interface>.json, and has that plugin's members
// for the container's interface: either finds what the other kept. Members of our own beside them are the network, by
// which GC knows whose the file is, and the sysctls. Files are written at once and describe a namespace's
// life, so that a folder below /run is the place for them.
package originals

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cleat-cni/cleat/internal/atomicfile"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/netstate"
)

// Store is the store on disk. It has no state: each call names its folder.
type Store struct{}

// file is the content of a file. The first five members are the reference's.
type file struct {
	MAC      string `json:"mac,omitempty"`
	Promisc  *bool  `json:"promisc,omitempty"`
	MTU      int    `json:"mtu,omitempty"`
	AllMulti *bool  `json:"allmulti,omitempty"`
	TxQLen   *int   `json:"txQLen,omitempty"`

	Network     string   `json:"network,omitempty"`
	ContainerID string   `json:"containerID,omitempty"`
	IfName      string   `json:"ifName,omitempty"`
	PodID       string   `json:"podID,omitempty"`
	Sysctls     []sysctl `json:"sysctls,omitempty"` // in the order in which they were changed
}

type sysctl struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Save implements planned.Originals. Only the owner's interface in the pod and the pod's sysctls have a place in a file.
func (Store) Save(dir string, s netstate.State) (bool, error) {
	path, err := pathOf(dir, s.Owner)
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(path); err == nil {
		return false, nil
	}
	f := file{Network: s.Owner.Network, ContainerID: s.Owner.ContainerID, IfName: s.Owner.IfName, PodID: s.PodID}
	for _, l := range s.Links {
		if l.Place != netstate.Pod || l.Name != s.Owner.IfName {
			return false, fmt.Errorf("keep %s: only the pod's interface has a place in the file", l.Key())
		}
		f.setLink(l)
	}
	for _, v := range s.Sysctls {
		if v.Place != netstate.Pod {
			return false, fmt.Errorf("keep %s: only the pod's values have a place in the file", v.Key())
		}
		f.Sysctls = append(f.Sysctls, sysctl{v.Name, v.Value})
	}
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return false, err
	}
	if err := makeOwn(dir); err != nil {
		return false, err
	}
	return true, atomicfile.WriteAs(s.Owner.Mark(), path, data, 0o600)
}

// makeOwn makes the folder, or makes sure that nobody else can put files there: what they say is done as root on DEL.
func makeOwn(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err == nil {
		err = ownfile.Check(info)
	}
	if err != nil {
		return fmt.Errorf("folder %s: %w", dir, err)
	}
	return nil
}

func (f *file) setLink(l netstate.Link) {
	f.MAC, f.MTU = l.MAC, l.MTU
	if l.Promisc || l.NoPromisc {
		f.Promisc = &l.Promisc
	}
	if l.AllMulti != "" {
		on := l.AllMulti == netstate.On
		f.AllMulti = &on
	}
	if l.TxQLen != 0 {
		n := max(l.TxQLen, 0)
		f.TxQLen = &n
	}
}

// Load implements planned.Originals. What is damaged, or may be somebody else's, is an error; members that make no sense are passed over.
func (Store) Load(dir string, owner netstate.Owner) (netstate.State, error) {
	s := netstate.State{Owner: owner}
	path, err := pathOf(dir, owner)
	if err != nil {
		return s, err
	}
	f, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.PodID = f.PodID
	if l, ok := f.link(owner.IfName); ok {
		s.Links = []netstate.Link{l}
	}
	for _, v := range f.Sysctls {
		if !ofNetwork(v.Name) {
			return netstate.State{Owner: owner}, fmt.Errorf("read %s: sysctl %q is not of a network", path, v.Name)
		}
		s.Sysctls = append(s.Sysctls, netstate.Sysctl{Place: netstate.Pod, Name: v.Name, Value: v.Value})
	}
	return s, nil
}

// ofNetwork reports whether a sysctl is a namespace's own, as all are that are changed in a pod: others are the machine's.
func ofNetwork(name string) bool {
	return strings.HasPrefix(name, "net/") && filepath.Clean(name) == name
}

// link is what the file says of the interface, and whether it says anything.
func (f file) link(name string) (netstate.Link, bool) {
	l := netstate.Link{Place: netstate.Pod, Name: name, MTU: f.MTU}
	if mac, err := netstate.ParseMAC(f.MAC); err == nil {
		l.MAC = mac
	}
	if f.Promisc != nil {
		l.Promisc, l.NoPromisc = *f.Promisc, !*f.Promisc
	}
	if f.AllMulti != nil {
		l.AllMulti = netstate.SwitchOf(*f.AllMulti)
	}
	if f.TxQLen != nil {
		if l.TxQLen = *f.TxQLen; l.TxQLen == 0 {
			l.TxQLen = netstate.NoQueue
		}
	}
	says := l.MAC != "" || l.MTU != 0 || l.Promisc || l.NoPromisc || l.AllMulti != "" || l.TxQLen != 0
	return l, says
}

// maxSize is more than any file has that was written here.
const maxSize = 1 << 20

func read(path string) (file, error) {
	var f file
	data, err := ownfile.Read(path, maxSize)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return file{}, fmt.Errorf("read %s: %w", path, err)
	}
	return f, nil
}

// Remove implements planned.Originals. What a killed Save left goes, too.
func (Store) Remove(dir string, owner netstate.Owner) error {
	path, err := pathOf(dir, owner)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range []string{path, filepath.Join(dir, atomicfile.TempName(owner.Mark()))} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Collect implements planned.Originals. A file that names no network is the reference's, and stays. What a killed Save left goes
// without being told of: it says nothing.
func (Store) Collect(dir, network string, valid []netstate.Owner, dryRun bool) ([]netstate.Freed, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keep := map[netstate.Owner]bool{}
	for _, o := range valid {
		keep[o] = true
	}
	var (
		freed []netstate.Freed
		errs  []error
	)
	for _, e := range entries {
		if !dryRun && leftOver(e.Name(), network, keep) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		if atomicfile.IsTemp(e.Name()) || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		f, err := read(filepath.Join(dir, e.Name()))
		o := netstate.Owner{Network: f.Network, ContainerID: f.ContainerID, IfName: f.IfName}
		if err != nil || f.Network != network || keep[o] || e.Name() != nameOf(o) {
			continue // nobody knows whose a damaged one is; its DEL removes it
		}
		if !dryRun {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
				continue
			}
		}
		freed = append(freed, netstate.Freed{Object: "host file " + filepath.Join(dir, e.Name()), Mark: o.Mark(), Owner: o})
	}
	return freed, errors.Join(errs...)
}

// leftOver reports whether a file is one that a Save for an owner of network, but none of keep, was killed at.
func leftOver(name, network string, keep map[netstate.Owner]bool) bool {
	if !strings.HasPrefix(name, atomicfile.TempName(netstate.NetworkMark(network)+"-")) {
		return false
	}
	for o := range keep {
		if name == atomicfile.TempName(o.Mark()) {
			return false
		}
	}
	return true
}

func nameOf(o netstate.Owner) string { return o.ContainerID + "_" + o.IfName + ".json" }

// pathOf is the owner's file. A name that would lead out of the folder is refused.
func pathOf(dir string, o netstate.Owner) (string, error) {
	name := nameOf(o)
	if !filepath.IsAbs(dir) || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("file %q in folder %q: no such place", name, dir)
	}
	return filepath.Join(dir, name), nil
}
