package leases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/ownfile"
)

// errNotFile is what reading a folder, a symbolic link, a FIFO or the like gives: such a thing is
// never a lease, and what a link points to is never looked at.
var errNotFile = errors.New("not a regular file")

// errNoFolder is something that stands in the place of a folder: no lease can be in it.
var errNoFolder = errors.New("not a folder")

// errShared is a file that somebody else may see under another name.
var errShared = errors.New("not this process's own file")

// dir is an open folder. All names are of files directly in it, and no link in it is
// followed. Errors carry the whole path.
type dir struct {
	fd   int // -1: the folder is not there
	path string
}

// openDir opens the folder at path, which must not be a symbolic link itself.
func openDir(path string) (dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return dir{fd: -1, path: path}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return dir{fd: fd, path: path}, nil
}

func (d dir) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
	}
}

func (d dir) join(name string) string { return filepath.Join(d.path, name) }

func (d dir) fault(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: d.join(name), Err: err}
}

// stat describes name itself, or the folder if name is empty.
func (d dir) stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if name == "" {
		return st, d.fault("examine", "", unix.Fstat(d.fd, &st))
	}
	return st, d.fault("examine", name, unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW))
}

// private makes sure that nobody but root and this user puts files into the folder: who can says who has which address.
func (d dir) private() error {
	st, err := d.stat("")
	if err != nil {
		return err
	}
	return d.fault("use", "", ownfile.CheckOwner(int(st.Uid), fs.FileMode(st.Mode&0o777)))
}

// identity tells the folder from another one that stood or will stand at its path: by its inode, and, since that is
// used again at once, by when it was made, where the file system knows (ext4, xfs, btrfs; tmpfs counts
// inodes up).
func (d dir) identity() (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return "", d.fault("examine", "", err)
	}
	return fmt.Sprintf("%d %d.%09d", st.Ino, st.Btime.Sec, st.Btime.Nsec), nil
}

// open opens a regular file. O_NONBLOCK: a FIFO without a writer must not hold us.
func (d dir) open(name string, flags int) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EISDIR) {
		err = errNotFile
	}
	if err != nil {
		return -1, st, d.fault("open", name, err)
	}
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNotFile
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, d.fault("open", name, err)
	}
	return fd, st, nil
}

// read returns the first max+1 bytes of a regular file.
func (d dir) read(name string, max int) ([]byte, unix.Stat_t, error) {
	fd, st, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, st, err
	}
	defer unix.Close(fd)
	buf := make([]byte, max+1)
	n := 0
	for n < len(buf) {
		got, err := unix.Read(fd, buf[n:])
		if err != nil {
			return nil, st, d.fault("read", name, err)
		}
		if got == 0 {
			break
		}
		n += got
	}
	return buf[:n], st, nil
}

// create makes a file that is not there yet. After an error it is not there either.
func (d dir) create(name, content string) error {
	fd, _, err := d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	n, err := unix.Write(fd, []byte(content))
	if err == nil && n < len(content) {
		err = unix.ENOSPC
	}
	// A network file system tells of a full disk only here.
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(d.fault("write", name, err), d.remove(name))
	}
	return nil
}

// overwrite writes a file in place, which is only right for hints: a kill between the two steps
// leaves the tail of the old text. A file that has another name too is errShared and untouched: that name may stand anywhere.
func (d dir) overwrite(name, content string) error {
	fd, st, err := d.open(name, unix.O_WRONLY|unix.O_CREAT)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if st.Nlink != 1 {
		return d.fault("write", name, errShared)
	}
	return d.writeOver(fd, st, name, content)
}

func (d dir) writeOver(fd int, st unix.Stat_t, name, content string) error {
	n, err := unix.Pwrite(fd, []byte(content), 0)
	if err == nil && n < len(content) {
		err = unix.ENOSPC
	}
	if err != nil {
		return d.fault("write", name, err)
	}
	if st.Size > int64(len(content)) {
		return d.fault("write", name, unix.Ftruncate(fd, int64(len(content))))
	}
	return nil
}

// refill writes another content into a file that has no other name and is as create makes
// it; else the error is errShared and the file is untouched.
func (d dir) refill(name, content string) error {
	fd, st, err := d.open(name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if st.Nlink != 1 || st.Mode&0o7777 != 0o600 || st.Uid != uint32(unix.Geteuid()) {
		return d.fault("write", name, errShared)
	}
	return d.writeOver(fd, st, name, content)
}

// remove removes a name that is not a folder.
func (d dir) remove(name string) error {
	return d.fault("remove", name, unix.Unlinkat(d.fd, name, 0))
}

// link gives the file name of d a second name in to, which must not be there.
func (d dir) link(name string, to dir, as string) error {
	return to.fault("make", as, unix.Linkat(d.fd, name, to.fd, as, 0))
}

// rename moves name to a name in to, whatever is there.
func (d dir) rename(name string, to dir, as string) error {
	return to.fault("replace", as, unix.Renameat(d.fd, name, to.fd, as))
}

// names lists the folder.
func (d dir) names() ([]string, error) {
	// A descriptor of its own: the position in the listing belongs to it.
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, d.fault("open", "", err)
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, d.fault("list", "", err)
	}
	return names, nil
}
