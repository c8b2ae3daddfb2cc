package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// emptyDirMode is kubelet's: the processes of a pod may have any user ID. The
// directories above are closed to other users of the machine. In memory it is
// 1777 as in kubelet, since that is what tmpfs starts with.
const emptyDirMode = 0o777

func ensureEmptyDir(path string, source *corev1.EmptyDirVolumeSource, p *corev1.Pod) error {
	if err := makeOpenDir(path); err != nil {
		return err
	}
	mounted, err := mountinfo.Mounted(path)
	if err != nil {
		return err
	}
	switch source.Medium {
	case corev1.StorageMediumDefault:
		if mounted {
			return leaveMemory(path)
		}
		return nil
	case corev1.StorageMediumMemory:
		size, err := memorySize(source, p)
		if err != nil {
			return err
		}
		if !mounted {
			return mountTmpfs(path, size)
		}
		return resizeTmpfs(path, size)
	default:
		return invalidf("emptyDir medium %s is not supported yet", source.Medium)
	}
}

// makeOpenDir makes a directory that everyone may write to, unless it is there.
// It gets its mode under another name: a crash in between would else leave one
// that containers can't write to.
func makeOpenDir(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is in the way: it is %s", path, typeName(info.Mode()))
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent, name := filepath.Split(path)
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return err
	}
	fresh := filepath.Join(parent, "."+name) // no volume's name has a dot
	if err := os.Mkdir(fresh, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chmod(fresh, emptyDirMode); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// memorySize is the size of a tmpfs in bytes, as kubelet has it: the least of
// the volume's limit, what the pod's containers may use together when each has
// a limit, and all memory that pods may have, which is the machine's.
func memorySize(source *corev1.EmptyDirVolumeSource, p *corev1.Pod) (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, err
	}
	size := int64(info.Totalram) * int64(info.Unit)
	if limit := podMemoryLimit(p); limit > 0 {
		size = min(size, limit)
	}
	if source.SizeLimit != nil && source.SizeLimit.Sign() > 0 {
		size = min(size, source.SizeLimit.Value())
	}
	return inPages(size), nil
}

// podMemoryLimit is 0 when a container may use as much as it likes.
func podMemoryLimit(p *corev1.Pod) int64 {
	unlimited := func(c corev1.Container) bool { return c.Resources.Limits.Memory().IsZero() }
	if slices.ContainsFunc(p.Spec.InitContainers, unlimited) || slices.ContainsFunc(p.Spec.Containers, unlimited) {
		return 0
	}
	limits := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
	return limits.Memory().Value()
}

// inPages rounds up to whole pages, as tmpfs does.
func inPages(size int64) int64 {
	page := int64(os.Getpagesize())
	return (size + page - 1) / page * page
}

func mountTmpfs(path string, size int64) error {
	options := fmt.Sprintf("size=%d", size)
	// Volumes in memory often hold secrets, which must not reach a disk; kernels
	// before 6.4 can't promise that.
	err := unix.Mount("tmpfs", path, "tmpfs", 0, options+",noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", path, "tmpfs", 0, options)
	}
	if err != nil {
		return &fs.PathError{Op: "mount tmpfs on", Path: path, Err: err}
	}
	return nil
}

func resizeTmpfs(path string, size int64) error {
	st, err := statTmpfs(path)
	if err != nil {
		return err
	}
	if int64(st.Blocks)*st.Bsize == size {
		return nil
	}
	err = unix.Mount("tmpfs", path, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", size))
	if used := int64(st.Blocks-st.Bfree) * st.Bsize; errors.Is(err, unix.EINVAL) && used > size {
		return invalidf("it holds %d bytes, more than its new limit of %d; empty it or raise the limit", used, size)
	}
	if err != nil {
		return &fs.PathError{Op: "resize tmpfs on", Path: path, Err: err}
	}
	return nil
}

// leaveMemory puts a volume that was in memory before an edit on disk.
func leaveMemory(path string) error {
	if _, err := statTmpfs(path); err != nil {
		return err
	}
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "unmount", Path: path, Err: err}
	}
	return nil
}

// statTmpfs fails when something else is mounted: that is not ours.
func statTmpfs(path string) (unix.Statfs_t, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return st, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Type != unix.TMPFS_MAGIC {
		return st, invalidf("someone mounted something on %s; unmount it", path)
	}
	return st, nil
}
