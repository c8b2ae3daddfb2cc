package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// unmountBelow detaches every mount on dir or below it, the latest first: those
// before it may be hidden under it.
func unmountBelow(dir string) error {
	real, err := filepath.EvalSymlinks(filepath.Dir(dir)) // as the kernel lists it
	if err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(filepath.Join(real, filepath.Base(dir))))
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) {
		err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		// Someone else may have unmounted it since.
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
