package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// unmountBelow detaches every mount on dir or below it, the inner ones first.
func unmountBelow(dir string) error {
	real, err := filepath.EvalSymlinks(filepath.Dir(dir)) // as the kernel lists it
	if err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(filepath.Join(real, filepath.Base(dir))))
	if err != nil {
		return err
	}
	slices.SortStableFunc(mounts, func(a, b *mountinfo.Info) int { return len(b.Mountpoint) - len(a.Mountpoint) })
	for _, m := range mounts {
		err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		// A mount inside one that was detached went with it.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "unmount", Path: m.Mountpoint, Err: err}
		}
	}
	return nil
}

// openDir opens a directory by its name in another one: not through a symbolic
// link, and not one that something is mounted on, which is errMounted.
type openDir func(parent int, name string) (int, error)

var errMounted = errors.New("something is mounted there; unmount it")

// mountGuard is the best way to open that the kernel has.
func mountGuard() openDir {
	fd, err := openat2(unix.AT_FDCWD, ".")
	if err != nil {
		return openByMountID
	}
	unix.Close(fd)
	return openat2
}

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openat2 asks the kernel, from 5.6 on, not to cross into a mount.
func openat2(parent int, name string) (int, error) {
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   openDirFlags,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	if errors.Is(err, unix.EXDEV) {
		err = errMounted
	}
	return fd, err
}

// openByMountID opens and compares where the two directories are mounted, which
// works on any kernel but costs two more files for each directory.
func openByMountID(parent int, name string) (int, error) {
	fd, err := unix.Openat(parent, name, openDirFlags, 0)
	if err != nil {
		return -1, err
	}
	outer, err := mountID(parent)
	if err == nil {
		var inner string
		if inner, err = mountID(fd); err == nil && inner != outer {
			err = errMounted
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func mountID(fd int) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("the kernel does not tell where a file is mounted")
}

// maxOpen bounds how deep the walk goes, and so how many directories are open
// at a time: containers may have nested them without bound.
const maxOpen = 64

// remover deletes one tree.
type remover struct {
	open  openDir
	top   int // the tree's root
	moved int // directories moved up to the root
}

// openedDir is a directory on the way down.
type openedDir struct {
	*os.File
	fd    int
	depth int // 1 for the root
}

// removeTree deletes the directory name in dir with all that is in it.
func removeTree(ctx context.Context, dir, name string, open openDir) error {
	parent, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(parent)
	path := filepath.Join(dir, name)
	top, err := open(parent, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR): // a link or a file in its place
		return at(path, unix.Unlinkat(parent, name, 0))
	case err != nil:
		return at(path, err)
	}
	r := &remover{open: open, top: top}
	if err := r.empty(ctx, openedDir{os.NewFile(uintptr(top), path), top, 1}); err != nil {
		return err
	}
	return at(path, ignoreAbsent(unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)))
}

// empty deletes all that is in a directory, and closes it.
func (r *remover) empty(ctx context.Context, dir openedDir) error {
	defer dir.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := dir.ReadDir(512)
		if errors.Is(err, io.EOF) {
			// Deleting while reading may have hidden entries from this pass.
			if done, err := rewind(dir.File); done || err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := r.remove(ctx, dir, e); err != nil {
				return err
			}
		}
	}
}

// rewind starts a directory from its beginning and reports whether nothing is
// in it.
func rewind(dir *os.File) (empty bool, err error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	if _, err := dir.ReadDir(1); errors.Is(err, io.EOF) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	_, err = dir.Seek(0, io.SeekStart)
	return false, err
}

// remove deletes one entry of a directory.
func (r *remover) remove(ctx context.Context, parent openedDir, e fs.DirEntry) error {
	name := e.Name()
	path := filepath.Join(parent.Name(), name)
	if !e.IsDir() {
		return at(path, ignoreAbsent(unix.Unlinkat(parent.fd, name, 0)))
	}
	if parent.depth == maxOpen {
		return at(path, r.moveUp(parent.fd, name))
	}
	fd, err := r.open(parent.fd, name)
	if err != nil {
		return at(path, ignoreAbsent(err))
	}
	if err := r.empty(ctx, openedDir{os.NewFile(uintptr(fd), path), fd, parent.depth + 1}); err != nil {
		return err
	}
	return at(path, ignoreAbsent(unix.Unlinkat(parent.fd, name, unix.AT_REMOVEDIR)))
}

// moveUp puts a directory into the root of the tree, where it is met again.
func (r *remover) moveUp(parent int, name string) error {
	for {
		r.moved++
		err := unix.Renameat(parent, name, r.top, fmt.Sprintf(".deep-%d", r.moved))
		// The name may be left from a removal that was interrupted.
		if !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
}

func ignoreAbsent(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func at(path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "remove", Path: path, Err: err}
}
