package volume

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

func hostPath(path string, kind corev1.HostPathType) *corev1.Pod {
	return podWith(corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
	}})
}

// oneOfEach is a directory with one file of each type, named after it, and
// links.
func oneOfEach(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "each") // a socket's path must be short
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }
	check(t, os.Mkdir(at("directory"), 0o700))
	write(t, at("file"), "")
	listener, err := net.Listen("unix", at("socket"))
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	check(t, unix.Mkfifo(at("fifo"), 0o600))
	check(t, unix.Mknod(at("char"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	check(t, unix.Mknod(at("block"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))))
	check(t, os.Symlink("directory", at("link-to-directory")))
	check(t, os.Symlink("nothing", at("link-to-nothing")))
	return dir
}

func TestAHostPathMustBeWhatItsTypeSays(t *testing.T) {
	dir := oneOfEach(t)
	const correct = "; correct its path or its type "
	for _, test := range []struct {
		path string
		kind corev1.HostPathType
		want string // after "prepare volume host: hostPath <path> "; empty: fine
	}{
		{"directory", corev1.HostPathUnset, ""},
		{"file", corev1.HostPathUnset, ""},
		{"fifo", corev1.HostPathUnset, ""},
		{"directory", corev1.HostPathDirectory, ""},
		{"link-to-directory", corev1.HostPathDirectory, ""},
		{"directory", corev1.HostPathDirectoryOrCreate, ""},
		{"file", corev1.HostPathFile, ""},
		{"file", corev1.HostPathFileOrCreate, ""},
		{"socket", corev1.HostPathSocket, ""},
		{"char", corev1.HostPathCharDev, ""},
		{"block", corev1.HostPathBlockDev, ""},

		{"file", corev1.HostPathDirectory, "must be a directory and is a regular file" + correct + "Directory"},
		{"socket", corev1.HostPathDirectoryOrCreate, "must be a directory and is a socket" + correct + "DirectoryOrCreate"},
		{"directory", corev1.HostPathFile, "must be a regular file and is a directory" + correct + "File"},
		{"fifo", corev1.HostPathFileOrCreate, "must be a regular file and is a named pipe" + correct + "FileOrCreate"},
		{"char", corev1.HostPathSocket, "must be a socket and is a character device" + correct + "Socket"},
		{"block", corev1.HostPathCharDev, "must be a character device and is a block device" + correct + "CharDevice"},
		{"char", corev1.HostPathBlockDev, "must be a block device and is a character device" + correct + "BlockDevice"},

		{"none", corev1.HostPathDirectory, "must be a directory and is missing; make it, or set type DirectoryOrCreate, or correct the path"},
		{"none", corev1.HostPathFile, "must be a regular file and is missing; make it, or set type FileOrCreate, or correct the path"},
		{"none", corev1.HostPathSocket, "must be a socket and is missing; start what listens on it, or correct the path"},
		{"none", corev1.HostPathCharDev, "must be a character device and is missing; attach the device or load its driver, or correct the path"},
		{"none", corev1.HostPathBlockDev, "must be a block device and is missing; attach the device or load its driver, or correct the path"},
		{"link-to-nothing", corev1.HostPathUnset, "is a symbolic link to nothing; make what it leads to, or correct the path"},
		{"link-to-nothing", corev1.HostPathDirectoryOrCreate, "is a symbolic link to nothing; make what it leads to, or correct the path"},
		{"link-to-nothing", corev1.HostPathFileOrCreate, "is a symbolic link to nothing; make what it leads to, or correct the path"},
		{"file/below", corev1.HostPathUnset, "leads through something that is not a directory; correct the path"},
		{"file/below", corev1.HostPathDirectoryOrCreate, "leads through something that is not a directory; correct the path"},
	} {
		t.Run(string(test.kind)+" "+test.path, func(t *testing.T) {
			v := newVolumes(t)
			path := filepath.Join(dir, test.path)
			paths, err := v.Ensure(t.Context(), hostPath(path, test.kind))
			if test.want != "" {
				wantError(t, err, pod.Invalid, "prepare volume host: hostPath "+path+" "+test.want)
				return
			}
			check(t, err)
			if paths["host"] != path {
				t.Errorf("got %v", paths)
			}
		})
	}
	wantAbsent(t, filepath.Join(dir, "none"))
	wantAbsent(t, filepath.Join(dir, "nothing"))
}

func TestAHostPathIsMadeWhenItsTypeAllowsIt(t *testing.T) {
	old := unix.Umask(0o022)
	defer unix.Umask(old)
	for _, test := range []struct {
		kind corev1.HostPathType
		path string
		mode os.FileMode
	}{
		{corev1.HostPathUnset, "a/b/c", os.ModeDir | 0o755},
		{corev1.HostPathDirectoryOrCreate, "a/b/c", os.ModeDir | 0o755},
		{corev1.HostPathFileOrCreate, "c", 0o644},
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			v, path := newVolumes(t), filepath.Join(t.TempDir(), test.path)
			for range 2 {
				ensureOne(t, v, hostPath(path, test.kind))
				if mode := modeOf(t, path); mode != test.mode {
					t.Errorf("mode %v, want %v", mode, test.mode)
				}
			}
		})
	}
}

func TestAHostPathWithoutATypeFieldIsMade(t *testing.T) {
	v, path := newVolumes(t), filepath.Join(t.TempDir(), "new")
	p := hostPath(path, "")
	p.Spec.Volumes[0].HostPath.Type = nil
	ensureOne(t, v, p)
	if mode := modeOf(t, path); !mode.IsDir() {
		t.Errorf("mode %v", mode)
	}
}

func TestAFileIsNotMadeInAMissingDirectory(t *testing.T) {
	v, dir := newVolumes(t), filepath.Join(t.TempDir(), "missing")
	_, err := v.Ensure(t.Context(), hostPath(filepath.Join(dir, "file"), corev1.HostPathFileOrCreate))
	wantError(t, err, pod.Invalid, "prepare volume host: hostPath "+dir+"/file can't be made, since its directory "+dir+
		" is missing; make it, or add a volume of type DirectoryOrCreate before this one")
	wantAbsent(t, dir)
}

func TestARelativeHostPathIsRefused(t *testing.T) {
	v := newVolumes(t)
	_, err := v.Ensure(t.Context(), hostPath("data", corev1.HostPathUnset))
	wantError(t, err, pod.Invalid, "prepare volume host: hostPath data does not start with /; give the whole path")
	wantAbsent(t, "data")
}

func TestAHostPathThatTheSystemRefusesMayBeTriedAgain(t *testing.T) {
	v := newVolumes(t)
	_, err := v.Ensure(t.Context(), hostPath("/"+strings.Repeat("x", 300), corev1.HostPathUnset))
	wantClass(t, err, pod.Unavailable)
}

func TestRemoveLeavesHostPathsAlone(t *testing.T) {
	v, host := newVolumes(t), t.TempDir()
	write(t, filepath.Join(host, "file"), "kept")
	p := hostPath(host, corev1.HostPathDirectory)
	p.Spec.Volumes = append(p.Spec.Volumes, emptyDir("data", corev1.EmptyDirVolumeSource{}))
	ensureOne(t, v, p)
	check(t, v.Remove(t.Context(), uid))
	wantContent(t, filepath.Join(host, "file"), "kept")
}
