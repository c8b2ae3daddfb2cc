package volume_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/volume"
)

const uid = types.UID("6f0f1c1e-7f5f-5c3b-9a55-0c8a6f1f2a10")

func podWith(volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, Volumes: volumes},
	}
}

func onDisk(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// inMemory is a tmpfs volume; no limit when it is empty.
func inMemory(name, limit string) corev1.Volume {
	source := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	if limit != "" {
		q := resource.MustParse(limit)
		source.SizeLimit = &q
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}}
}

func onHost(path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

// newVolumes makes volumes on a root directory of the test's own, whose mounts
// go with the test.
func newVolumes(t *testing.T) (*volume.Volumes, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("these tests mount file systems and need root: run scripts/test as root")
	}
	root := t.TempDir()
	v := volume.New(root)
	t.Cleanup(func() {
		if err := v.Remove(context.Background(), uid); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return v, root
}

func ensure(t *testing.T, v *volume.Volumes, p *corev1.Pod) map[string]string {
	t.Helper()
	paths, err := v.Ensure(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func statfs(t *testing.T, path string) unix.Statfs_t {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func size(st unix.Statfs_t) int64 { return int64(st.Blocks) * st.Bsize }

func isTmpfs(t *testing.T, path string) bool {
	t.Helper()
	return device(t, path) != device(t, filepath.Dir(path)) && statfs(t, path).Type == unix.TMPFS_MAGIC
}

func device(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Dev
}

func TestEmptyDirOnDisk(t *testing.T) {
	v, root := newVolumes(t)
	defer unix.Umask(unix.Umask(0o077))
	p := podWith(onDisk("data"))
	paths := ensure(t, v, p)
	want := filepath.Join(root, "pods", string(uid), "volumes", "kubernetes.io~empty-dir", "data")
	if paths["data"] != want {
		t.Fatalf("path %s, want %s", paths["data"], want)
	}
	info, err := os.Stat(want)
	if err != nil || info.Mode() != os.ModeDir|0o777 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	write(t, filepath.Join(want, "f"), "kept")
	if err := os.Chmod(want, 0o700); err != nil {
		t.Fatal(err)
	}
	ensure(t, v, p)
	if text, err := os.ReadFile(filepath.Join(want, "f")); err != nil || string(text) != "kept" {
		t.Errorf("content after a second time: %q, %v", text, err)
	}
	if info, err := os.Stat(want); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode that a container gave it is gone: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(root, "pods", string(uid))); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the pod's directory is open to others: %v, %v", info.Mode(), err)
	}
}

func TestEmptyDirInMemory(t *testing.T) {
	v, _ := newVolumes(t)
	path := ensure(t, v, podWith(inMemory("m", "1Mi")))["m"]
	if !isTmpfs(t, path) {
		t.Fatalf("%s is no tmpfs", path)
	}
	if got := size(statfs(t, path)); got != 1<<20 {
		t.Errorf("size %d, want 1 MiB", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	write(t, filepath.Join(path, "f"), "kept")
	if err := os.WriteFile(filepath.Join(path, "big"), make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("2 MiB fit into 1 MiB: %v", err)
	}
	if err := os.Remove(filepath.Join(path, "big")); err != nil {
		t.Fatal(err)
	}

	again := ensure(t, v, podWith(inMemory("m", "2Mi")))["m"]
	if got := size(statfs(t, again)); got != 2<<20 {
		t.Errorf("size after an edit %d, want 2 MiB", got)
	}
	if text, err := os.ReadFile(filepath.Join(path, "f")); err != nil || string(text) != "kept" {
		t.Errorf("content after an edit: %q, %v", text, err)
	}

	if err := unix.Unmount(path, 0); err != nil { // as a reboot does
		t.Fatal(err)
	}
	ensure(t, v, podWith(inMemory("m", "2Mi")))
	if !isTmpfs(t, path) {
		t.Error("not mounted again")
	}
}

func TestTmpfsHoldsMoreThanItsNewLimit(t *testing.T) {
	v, _ := newVolumes(t)
	path := ensure(t, v, podWith(inMemory("m", "4Mi")))["m"]
	if err := os.WriteFile(filepath.Join(path, "big"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := v.Ensure(t.Context(), podWith(inMemory("m", "1Mi")))
	if !errors.Is(err, pod.Invalid) || !strings.Contains(err.Error(), "volume m") || !strings.Contains(err.Error(), "raise the limit") {
		t.Errorf("error %v", err)
	}
}

func TestSizeOfTmpfs(t *testing.T) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	page := int64(os.Getpagesize())
	half := (int64(info.Totalram)*int64(info.Unit)/2 + page - 1) / page * page
	limited := func(limits ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = nil
			for i, l := range limits {
				c := corev1.Container{Name: fmt.Sprint(i)}
				if l != "" {
					c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(l)}
				}
				p.Spec.Containers = append(p.Spec.Containers, c)
			}
		}
	}
	tests := []struct {
		name  string
		limit string
		edit  func(*corev1.Pod)
		want  int64
	}{
		{"no limit", "", limited(""), half},
		{"a limit of zero", "0", limited(""), half},
		{"containers with limits", "", limited("8Mi", "4Mi"), 12 << 20},
		{"one container without", "", limited("8Mi", ""), half},
		{"its own limit is less", "1Mi", limited("8Mi"), 1 << 20},
		{"its own limit is more", "16Mi", limited("8Mi"), 8 << 20},
		{"not a whole page", "1025", limited(""), page},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, _ := newVolumes(t)
			p := podWith(inMemory("m", tt.limit))
			tt.edit(p)
			path := ensure(t, v, p)["m"]
			if got := size(statfs(t, path)); got != tt.want {
				t.Errorf("size %d, want %d", got, tt.want)
			}
			ensure(t, v, p)
		})
	}
}

func TestMediumChanges(t *testing.T) {
	v, _ := newVolumes(t)
	path := ensure(t, v, podWith(onDisk("d")))["d"]
	write(t, filepath.Join(path, "disk"), "x")
	ensure(t, v, podWith(inMemory("d", "1Mi")))
	if !isTmpfs(t, path) {
		t.Fatal("not in memory")
	}
	ensure(t, v, podWith(onDisk("d")))
	if isTmpfs(t, path) {
		t.Fatal("still in memory")
	}
	if _, err := os.Stat(filepath.Join(path, "disk")); err != nil {
		t.Errorf("what was on disk is gone: %v", err)
	}
}

func TestHostPath(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(at("dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, at("file"), "x")
	listener, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, target := range map[string]string{"link": "dir", "dangling": "nowhere"} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(at("block"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path   string
		kind   corev1.HostPathType
		refuse string // part of the error; empty: accepted
		made   os.FileMode
	}{
		{path: at("dir"), kind: corev1.HostPathUnset},
		{path: at("file"), kind: corev1.HostPathUnset},
		{path: at("fifo"), kind: corev1.HostPathUnset},
		{path: at("new/a"), kind: corev1.HostPathUnset, made: os.ModeDir | 0o755},
		{path: at("dangling"), kind: corev1.HostPathUnset, refuse: "a symbolic link to nothing"},
		{path: at("file/below"), kind: corev1.HostPathUnset, refuse: "a directory on the way"},
		{path: at("dir"), kind: corev1.HostPathDirectory},
		{path: at("link"), kind: corev1.HostPathDirectory},
		{path: at("file"), kind: corev1.HostPathDirectory, refuse: "must be a directory and is a regular file"},
		{path: at("missing"), kind: corev1.HostPathDirectory, refuse: "must be a directory and is missing"},
		{path: at("dir"), kind: corev1.HostPathDirectoryOrCreate},
		{path: at("new/b"), kind: corev1.HostPathDirectoryOrCreate, made: os.ModeDir | 0o755},
		{path: at("fifo"), kind: corev1.HostPathDirectoryOrCreate, refuse: "and is a named pipe"},
		{path: at("file"), kind: corev1.HostPathFile},
		{path: at("dir"), kind: corev1.HostPathFile, refuse: "must be a regular file and is a directory"},
		{path: at("missing"), kind: corev1.HostPathFile, refuse: "missing"},
		{path: at("file"), kind: corev1.HostPathFileOrCreate},
		{path: at("created"), kind: corev1.HostPathFileOrCreate, made: 0o644},
		{path: at("no/such"), kind: corev1.HostPathFileOrCreate, refuse: "its directory " + at("no") + " is missing"},
		{path: at("socket"), kind: corev1.HostPathSocket},
		{path: at("file"), kind: corev1.HostPathSocket, refuse: "must be a socket"},
		{path: "/dev/null", kind: corev1.HostPathCharDev},
		{path: at("block"), kind: corev1.HostPathCharDev, refuse: "must be a character device and is a block device"},
		{path: at("block"), kind: corev1.HostPathBlockDev},
		{path: "/dev/null", kind: corev1.HostPathBlockDev, refuse: "must be a block device and is a character device"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s as %q", filepath.Base(tt.path), tt.kind), func(t *testing.T) {
			v := volume.New(t.TempDir())
			paths, err := v.Ensure(t.Context(), podWith(onHost(tt.path, tt.kind)))
			if tt.refuse != "" {
				if !errors.Is(err, pod.Invalid) || !strings.Contains(err.Error(), tt.refuse) || !strings.Contains(err.Error(), "volume h") || !strings.Contains(err.Error(), tt.path) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || paths["h"] != tt.path {
				t.Fatalf("%v, %v", paths, err)
			}
			if tt.made != 0 {
				if info, err := os.Stat(tt.path); err != nil || info.Mode() != tt.made {
					t.Errorf("made %v, %v; want %v", info.Mode(), err, tt.made)
				}
			}
		})
	}
}

func TestHostPathWithoutType(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	p := podWith(onHost(dir, ""))
	p.Spec.Volumes[0].HostPath.Type = nil
	ensure(t, volume.New(t.TempDir()), p)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
}

func TestRemove(t *testing.T) {
	v, root := newVolumes(t)
	paths := ensure(t, v, podWith(onDisk("a"), inMemory("b", "1Mi"), onDisk("c")))
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"), "x")
	for _, name := range []string{"a", "b"} {
		for i := range 2000 { // more than one batch of a directory
			write(t, filepath.Join(paths[name], fmt.Sprintf("f%d", i)), "")
		}
		if err := os.Symlink(outside, filepath.Join(paths[name], "link")); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(paths[name], "x/y/z"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// What a container with the right to mount could leave behind.
	inside := filepath.Join(paths["a"], "x", "bind")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(outside, inside, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	uids, err := v.List()
	if err != nil || !slices.Equal(uids, []types.UID{uid}) {
		t.Errorf("list %v, %v", uids, err)
	}
	for range 2 {
		if err := v.Remove(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(root, "pods", string(uid))); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("still there: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Errorf("deleted through a link or mount: %v", err)
	}
	if uids, err := v.List(); err != nil || len(uids) != 0 {
		t.Errorf("list %v, %v", uids, err)
	}
}

// A container may nest directories deeper than a process may have files open,
// and than a path may be long.
func TestRemoveDeepTree(t *testing.T) {
	v, root := newVolumes(t)
	path := ensure(t, v, podWith(onDisk("a")))["a"]
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if err := unix.Mkdirat(fd, "deep", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "deep", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	if err := v.Remove(t.Context(), uid); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "pods", string(uid))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

func TestRemoveStopsWithItsContext(t *testing.T) {
	v, _ := newVolumes(t)
	path := ensure(t, v, podWith(onDisk("a")))["a"]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Remove(ctx, uid); !errors.Is(err, context.Canceled) || !errors.Is(err, pod.Unavailable) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("deleted all the same: %v", err)
	}
	if _, err := v.Ensure(ctx, podWith(onDisk("a"))); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestRemoveALinkInThePlaceOfAPod(t *testing.T) {
	root := t.TempDir()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"), "x")
	if err := os.Mkdir(filepath.Join(root, "pods"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "pods", string(uid))
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if err := volume.New(root).Remove(t.Context(), uid); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(link); !errors.Is(err, os.ErrNotExist) {
		t.Error("the link is there")
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error("deleted through the link")
	}
}

func TestUIDsThatLeadElsewhere(t *testing.T) {
	v := volume.New(t.TempDir())
	for _, bad := range []types.UID{"", ".", "..", "a/b", "../../etc"} {
		if err := v.Remove(t.Context(), bad); !errors.Is(err, pod.Internal) {
			t.Errorf("%q: %v", bad, err)
		}
		p := podWith(onDisk("a"))
		p.UID = bad
		if _, err := v.Ensure(t.Context(), p); !errors.Is(err, pod.Internal) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSomethingInTheWay(t *testing.T) {
	v, root := newVolumes(t)
	dir := filepath.Join(root, "pods", string(uid), "volumes", "kubernetes.io~empty-dir")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a"), "")
	if _, err := v.Ensure(t.Context(), podWith(onDisk("a"))); !errors.Is(err, pod.Unavailable) || !strings.Contains(err.Error(), "in the way: it is a regular file") {
		t.Errorf("error %v", err)
	}
	// Left by a crash.
	if err := os.Mkdir(filepath.Join(dir, ".b"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := ensure(t, v, podWith(onDisk("b")))["b"]
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestListWithoutDirectory(t *testing.T) {
	if uids, err := volume.New(t.TempDir()).List(); err != nil || len(uids) != 0 {
		t.Errorf("%v, %v", uids, err)
	}
}
