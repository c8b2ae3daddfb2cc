package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// wantedTypes is what must be found under a hostPath of each type. For the
// others anything will do.
var wantedTypes = map[corev1.HostPathType]struct {
	mode fs.FileMode // its type bits
	name string
}{
	corev1.HostPathDirectory:         {fs.ModeDir, "a directory"},
	corev1.HostPathDirectoryOrCreate: {fs.ModeDir, "a directory"},
	corev1.HostPathFile:              {0, "a regular file"},
	corev1.HostPathFileOrCreate:      {0, "a regular file"},
	corev1.HostPathSocket:            {fs.ModeSocket, "a socket"},
	corev1.HostPathCharDev:           {fs.ModeDevice | fs.ModeCharDevice, "a character device"},
	corev1.HostPathBlockDev:          {fs.ModeDevice, "a block device"},
}

// ensureHostPath checks, following symbolic links, that the node has what the
// type asks for. Of the types that create, DirectoryOrCreate makes parents and
// FileOrCreate does not, as in Kubernetes. A path without a type that is missing
// becomes a directory: Kubernetes leaves that to the runtime, and containerd
// does it.
func ensureHostPath(source *corev1.HostPathVolumeSource) error {
	if !filepath.IsAbs(source.Path) {
		return invalidf("hostPath %s does not start with /; give the whole path", source.Path)
	}
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	info, err := os.Stat(source.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = createHostPath(source.Path, kind); err == nil {
			info, err = os.Stat(source.Path)
		}
	}
	wanted, checked := wantedTypes[kind]
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return invalidf("hostPath %s leads through something that is not a directory; correct the path", source.Path)
	case err != nil:
		return err
	case checked && info.Mode().Type() != wanted.mode:
		return invalidf("hostPath %s must be %s and is %s; correct its path or its type %s",
			source.Path, wanted.name, typeName(info.Mode()), kind)
	}
	return nil
}

func createHostPath(path string, kind corev1.HostPathType) error {
	if _, err := os.Lstat(path); err == nil {
		return invalidf("hostPath %s is a symbolic link to nothing; make what it leads to, or correct the path", path)
	}
	switch kind {
	case corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate:
		return os.MkdirAll(path, 0o755)
	case corev1.HostPathFileOrCreate:
		return createFile(path)
	default:
		return invalidf("hostPath %s must be %s and is missing; %s, or correct the path", path, wantedTypes[kind].name, remedies[kind])
	}
}

// remedies says what to do when there is nothing under a path.
var remedies = map[corev1.HostPathType]string{
	corev1.HostPathDirectory: "make it, or set type DirectoryOrCreate",
	corev1.HostPathFile:      "make it, or set type FileOrCreate",
	corev1.HostPathSocket:    "start what listens on it",
	corev1.HostPathCharDev:   "attach the device or load its driver",
	corev1.HostPathBlockDev:  "attach the device or load its driver",
}

// createFile makes an empty file, which someone else may have done meanwhile.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return invalidf("hostPath %s can't be made, since its directory %s is missing; make it, or add a volume of type DirectoryOrCreate before this one",
			path, filepath.Dir(path))
	case err != nil:
		return err
	}
	return f.Close()
}

// typeName says what a file is.
func typeName(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "a regular file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeSocket:
		return "a socket"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeDevice | fs.ModeCharDevice:
		return "a character device"
	case fs.ModeDevice:
		return "a block device"
	default:
		return "something else"
	}
}
