package volume

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podstead.io/podstead/internal/pod"
)

func inMemory(limit string) corev1.EmptyDirVolumeSource {
	source := corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	if limit != "" {
		quantity := resource.MustParse(limit)
		source.SizeLimit = &quantity
	}
	return source
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	check(t, err)
	return info.Mode()
}

// tmpfsSize is 0 when path is not on tmpfs.
func tmpfsSize(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Statfs_t
	check(t, unix.Statfs(path, &st))
	if st.Type != unix.TMPFS_MAGIC {
		return 0
	}
	return int64(st.Blocks) * st.Bsize
}

func TestAnyUserOfAPodMayWriteToAnEmptyDirWhateverTheUmask(t *testing.T) {
	v := newVolumes(t)
	old := unix.Umask(0o077)
	path := ensureOne(t, v, podWith(emptyDir("data", corev1.EmptyDirVolumeSource{})))
	unix.Umask(old)
	if mode := modeOf(t, path); mode != fs.ModeDir|0o777 {
		t.Errorf("the volume's mode is %v", mode)
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(v.pods); dir = filepath.Dir(dir) {
		if mode := modeOf(t, dir); mode.Perm()&0o007 != 0 {
			t.Errorf("other users of the machine may enter %s: %v", dir, mode)
		}
	}
}

func TestAnEmptyDirKeepsItsContentAndMode(t *testing.T) {
	v := newVolumes(t)
	p := podWith(emptyDir("data", corev1.EmptyDirVolumeSource{}))
	path := ensureOne(t, v, p)
	write(t, filepath.Join(path, "file"), "kept")
	check(t, os.Chmod(path, 0o700)) // as its container may
	if again := ensureOne(t, v, p); again != path {
		t.Errorf("it moved from %s to %s", path, again)
	}
	wantContent(t, filepath.Join(path, "file"), "kept")
	if mode := modeOf(t, path); mode.Perm() != 0o700 {
		t.Errorf("the mode that its container gave it became %v", mode)
	}
}

func TestAnEmptyDirThatWasLostIsMadeAnew(t *testing.T) {
	v := newVolumes(t)
	p := podWith(emptyDir("data", corev1.EmptyDirVolumeSource{}))
	path := ensureOne(t, v, p)
	check(t, os.RemoveAll(v.pods))
	ensureOne(t, v, p)
	if mode := modeOf(t, path); mode != fs.ModeDir|0o777 {
		t.Errorf("mode %v", mode)
	}
}

func TestAnEmptyDirIsOpenThoughTheAgentWasKilledWhileItMadeIt(t *testing.T) {
	v := newVolumes(t)
	p := podWith(emptyDir("data", corev1.EmptyDirVolumeSource{}))
	path := ensureOne(t, v, p)
	check(t, os.Remove(path))
	check(t, os.Mkdir(filepath.Join(filepath.Dir(path), ".data"), 0o700))
	ensureOne(t, v, p)
	if mode := modeOf(t, path); mode != fs.ModeDir|0o777 {
		t.Errorf("mode %v", mode)
	}
}

func TestAFileInTheWayOfAnEmptyDirIsNamed(t *testing.T) {
	v := newVolumes(t)
	p := podWith(emptyDir("data", corev1.EmptyDirVolumeSource{}))
	path := ensureOne(t, v, p)
	check(t, os.Remove(path))
	check(t, os.Symlink("/etc", path))
	_, err := v.Ensure(t.Context(), p)
	wantError(t, err, pod.Unavailable, fmt.Sprintf("prepare volume data: %s is in the way: it is a symbolic link", path))
}

func TestAVolumeInMemoryIsATmpfsOfItsLimit(t *testing.T) {
	v := newVolumes(t)
	p := podWith(emptyDir("cache", inMemory("1Mi")))
	path := ensureOne(t, v, p)
	if size := tmpfsSize(t, path); size != 1<<20 {
		t.Errorf("size %d", size)
	}
	if mode := modeOf(t, path); mode != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("mode %v", mode)
	}
	write(t, filepath.Join(path, "file"), "kept")
	ensureOne(t, v, p)
	wantContent(t, filepath.Join(path, "file"), "kept")
	if points := mountsBelow(t, path); len(points) != 1 {
		t.Errorf("it is mounted %d times", len(points))
	}
	err := os.WriteFile(filepath.Join(path, "big"), make([]byte, 2<<20), 0o600)
	if err == nil {
		t.Error("it takes more than its limit")
	}
}

func TestAVolumeInMemoryIsMountedAgainAfterAReboot(t *testing.T) {
	v := newVolumes(t)
	p := podWith(emptyDir("cache", inMemory("1Mi")))
	path := ensureOne(t, v, p)
	check(t, unix.Unmount(path, 0))
	ensureOne(t, v, p)
	if size := tmpfsSize(t, path); size != 1<<20 {
		t.Errorf("size %d", size)
	}
}

func TestAVolumeInMemoryFollowsItsLimit(t *testing.T) {
	v := newVolumes(t)
	path := ensureOne(t, v, podWith(emptyDir("cache", inMemory("1Mi"))))
	write(t, filepath.Join(path, "file"), "kept")
	for _, limit := range []string{"4Mi", "2Mi"} {
		p := podWith(emptyDir("cache", inMemory(limit)))
		ensureOne(t, v, p)
		if size, want := tmpfsSize(t, path), p.Spec.Volumes[0].EmptyDir.SizeLimit.Value(); size != want {
			t.Errorf("size %d, want %d", size, want)
		}
		wantContent(t, filepath.Join(path, "file"), "kept")
	}
	check(t, os.WriteFile(filepath.Join(path, "big"), make([]byte, 1<<20), 0o600))
	_, err := v.Ensure(t.Context(), podWith(emptyDir("cache", inMemory("1Mi"))))
	wantError(t, err, pod.Invalid, fmt.Sprintf(
		"prepare volume cache: it holds %d bytes, more than its new limit of 1048576; empty it or raise the limit", 1<<20+os.Getpagesize()))
	if size := tmpfsSize(t, path); size != 2<<20 {
		t.Errorf("size %d", size)
	}
}

func TestAVolumeMayMoveBetweenMemoryAndDisk(t *testing.T) {
	v := newVolumes(t)
	onDisk, memory := podWith(emptyDir("data", corev1.EmptyDirVolumeSource{})), podWith(emptyDir("data", inMemory("1Mi")))
	path := ensureOne(t, v, onDisk)
	disk := tmpfsSize(t, path)
	ensureOne(t, v, memory)
	if size := tmpfsSize(t, path); size != 1<<20 {
		t.Errorf("size %d", size)
	}
	ensureOne(t, v, onDisk)
	if points := mountsBelow(t, path); len(points) != 0 || tmpfsSize(t, path) != disk {
		t.Errorf("it is still in memory: %v", points)
	}
}

func TestWhatSomeoneMountedOnAVolumeIsLeftAlone(t *testing.T) {
	v := newVolumes(t)
	p := podWith(emptyDir("data", corev1.EmptyDirVolumeSource{}))
	path := ensureOne(t, v, p)
	check(t, unix.Mount("proc", path, "proc", 0, ""))
	for _, source := range []corev1.EmptyDirVolumeSource{{}, inMemory("1Mi")} {
		_, err := v.Ensure(t.Context(), podWith(emptyDir("data", source)))
		wantError(t, err, pod.Invalid, fmt.Sprintf("prepare volume data: someone mounted something on %s; unmount it", path))
	}
	if points := mountsBelow(t, path); len(points) != 1 {
		t.Errorf("mounts: %v", points)
	}
}

func TestHugePagesAreRefused(t *testing.T) {
	v := newVolumes(t)
	_, err := v.Ensure(t.Context(), podWith(emptyDir("huge", corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages})))
	wantError(t, err, pod.Invalid, "prepare volume huge: emptyDir medium HugePages is not supported yet")
}

func TestMemorySizeIsTheLeastOfTheLimits(t *testing.T) {
	var info unix.Sysinfo_t
	check(t, unix.Sysinfo(&info))
	all := inPages(int64(info.Totalram) * int64(info.Unit))
	page := int64(os.Getpagesize())
	for _, test := range []struct {
		name              string
		sizeLimit         string
		initLimit, limits []string // of containers; "" is none
		want              int64
	}{
		{name: "nothing said: all memory", limits: []string{""}, want: all},
		{name: "its own limit", sizeLimit: "3Mi", limits: []string{""}, want: 3 << 20},
		{name: "the sum of the containers'", limits: []string{"1Mi", "2Mi"}, want: 3 << 20},
		{name: "a container without a limit leaves all memory", limits: []string{"1Mi", ""}, want: all},
		{name: "an init container counts, if it is the greater", initLimit: []string{"8Mi"}, limits: []string{"1Mi"}, want: 8 << 20},
		{name: "an init container without a limit leaves all memory", initLimit: []string{""}, limits: []string{"1Mi"}, want: all},
		{name: "its own below the containers'", sizeLimit: "1Mi", limits: []string{"2Mi"}, want: 1 << 20},
		{name: "the containers' below its own", sizeLimit: "4Mi", limits: []string{"2Mi"}, want: 2 << 20},
		{name: "more than there is", sizeLimit: "1Ei", limits: []string{""}, want: all},
		{name: "zero is no limit", sizeLimit: "0", limits: []string{""}, want: all},
		{name: "whole pages", sizeLimit: "1", limits: []string{""}, want: page},
	} {
		t.Run(test.name, func(t *testing.T) {
			source := inMemory(test.sizeLimit)
			p := podWith(emptyDir("cache", source))
			p.Spec.InitContainers, p.Spec.Containers = limited(test.initLimit), limited(test.limits)
			size, err := memorySize(&source, p)
			check(t, err)
			if size != test.want {
				t.Errorf("got %d, want %d", size, test.want)
			}
		})
	}
}

func limited(limits []string) []corev1.Container {
	var containers []corev1.Container
	for _, limit := range limits {
		var c corev1.Container
		if limit != "" {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		}
		containers = append(containers, c)
	}
	return containers
}
