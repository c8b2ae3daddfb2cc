package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// guards are both ways to open without crossing a mount.
var guards = map[string]openDir{"openat2": openat2, "mount IDs": openByMountID}

func TestTheKernelGuardIsUsedWhereThereIsOne(t *testing.T) {
	fd, err := openat2(unix.AT_FDCWD, ".")
	if err != nil {
		t.Fatal("these tests need Linux 5.6: ", err)
	}
	unix.Close(fd)
}

// treasure is a directory outside of the volumes that must survive.
func treasure(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "chest"), 0o700))
	write(t, filepath.Join(dir, "chest", "gold"), "kept")
	return dir
}

func wantTreasure(t *testing.T, dir string) {
	t.Helper()
	wantContent(t, filepath.Join(dir, "chest", "gold"), "kept")
}

func TestRemoveTakesEverythingAndMayBeRepeated(t *testing.T) {
	v := newVolumes(t)
	p := podWith(emptyDir("cache", inMemory("1Mi")), emptyDir("data", corev1.EmptyDirVolumeSource{}))
	cache := ensureOne(t, v, p)
	write(t, filepath.Join(cache, "file"), "in memory")
	for range 2 {
		check(t, v.Remove(t.Context(), uid))
		wantAbsent(t, filepath.Join(v.pods, string(uid)))
		if points := mountsBelow(t, v.pods); len(points) != 0 {
			t.Errorf("still mounted: %v", points)
		}
	}
}

func TestRemoveLeavesOtherPodsAlone(t *testing.T) {
	v := newVolumes(t)
	ensureOne(t, v, podWith(emptyDir("data", inMemory("1Mi"))))
	other := podWith(emptyDir("data", inMemory("1Mi")))
	other.UID = uid + "0" // its path begins with the other's
	path := ensureOne(t, v, other)
	write(t, filepath.Join(path, "file"), "kept")
	check(t, v.Remove(t.Context(), uid))
	wantContent(t, filepath.Join(path, "file"), "kept")
}

func TestRemoveWorksThroughASymlinkedRootDirectory(t *testing.T) {
	dir := mountableDir(t)
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(dir, link))
	v := New(link)
	ensureOne(t, v, podWith(emptyDir("cache", inMemory("1Mi"))))
	check(t, v.Remove(t.Context(), uid))
	if points := mountsBelow(t, dir); len(points) != 0 {
		t.Errorf("still mounted: %v", points)
	}
	wantAbsent(t, filepath.Join(dir, "pods", string(uid)))
}

func TestRemoveUnmountsWhatSomeoneMountedInsideAndKeepsIt(t *testing.T) {
	for name, from := range map[string]func(dir string) (source, target string){
		"a directory":          func(dir string) (string, string) { return dir, "in here" },
		"the volume":           func(dir string) (string, string) { return dir, "" },
		"a single file":        func(dir string) (string, string) { return filepath.Join(dir, "chest", "gold"), "file" },
		"a name with newlines": func(dir string) (string, string) { return dir, "a\nb\tc\\d" },
	} {
		t.Run(name, func(t *testing.T) {
			v, outside := newVolumes(t), treasure(t)
			volume := ensureOne(t, v, podWith(emptyDir("data", corev1.EmptyDirVolumeSource{})))
			source, target := from(outside)
			target = filepath.Join(volume, target)
			switch info, err := os.Stat(source); {
			case err != nil:
				t.Fatal(err)
			case info.IsDir():
				check(t, os.MkdirAll(target, 0o700))
			default:
				write(t, target, "")
			}
			bind(t, source, target)
			bind(t, source, target) // and once more on top
			check(t, v.Remove(t.Context(), uid))
			wantTreasure(t, outside)
			wantAbsent(t, volume)
			if points := mountsBelow(t, v.pods); len(points) != 0 {
				t.Errorf("still mounted: %v", points)
			}
		})
	}
}

func TestRemoveUnmountsMountsWithinMountsThoughTheyAreBusy(t *testing.T) {
	v, outside := newVolumes(t), treasure(t)
	volume := ensureOne(t, v, podWith(emptyDir("cache", inMemory("1Mi"))))
	inner := filepath.Join(volume, "inner")
	check(t, os.Mkdir(inner, 0o700))
	bind(t, outside, inner)
	bind(t, t.TempDir(), filepath.Join(inner, "chest"))
	busy, err := os.Open(inner)
	check(t, err)
	defer busy.Close()
	check(t, v.Remove(t.Context(), uid))
	wantTreasure(t, outside)
	if points := mountsBelow(t, v.pods); len(points) != 0 {
		t.Errorf("still mounted: %v", points)
	}
}

func TestRemoveUnmountsWhatIsHiddenUnderAMount(t *testing.T) {
	v, outside := newVolumes(t), treasure(t)
	volume := ensureOne(t, v, podWith(emptyDir("data", corev1.EmptyDirVolumeSource{})))
	inner := filepath.Join(volume, "chest")
	check(t, os.Mkdir(inner, 0o700))
	bind(t, outside, inner)
	bind(t, outside, volume) // which has a directory of that name too
	check(t, v.Remove(t.Context(), uid))
	wantTreasure(t, outside)
	if points := mountsBelow(t, v.pods); len(points) != 0 {
		t.Errorf("still mounted: %v", points)
	}
}

func TestTheWalkDoesNotCrossAMountThatAppearsMeanwhile(t *testing.T) {
	for name, guard := range guards {
		t.Run(name, func(t *testing.T) {
			dir, outside := mountableDir(t), treasure(t)
			target := filepath.Join(dir, "tree", "mounted")
			check(t, os.MkdirAll(target, 0o700))
			bind(t, outside, target)
			err := removeTree(t.Context(), dir, "tree", guard)
			if !errors.Is(err, errMounted) {
				t.Errorf("got %v", err)
			}
			wantTreasure(t, outside)

			check(t, unix.Unmount(target, 0))
			bind(t, outside, filepath.Join(dir, "tree"))
			err = removeTree(t.Context(), dir, "tree", guard)
			if !errors.Is(err, errMounted) {
				t.Errorf("got %v", err)
			}
			wantTreasure(t, outside)

			check(t, unix.Unmount(filepath.Join(dir, "tree"), 0))
			check(t, removeTree(t.Context(), dir, "tree", guard))
			wantAbsent(t, filepath.Join(dir, "tree"))
		})
	}
}

func TestRemoveFollowsNoSymlink(t *testing.T) {
	for name, guard := range guards {
		t.Run(name, func(t *testing.T) {
			outside := treasure(t)
			dir := t.TempDir()
			tree := filepath.Join(dir, "tree")
			check(t, os.Mkdir(tree, 0o700))
			check(t, os.Symlink(outside, filepath.Join(tree, "directory")))
			check(t, os.Symlink(filepath.Join(outside, "chest", "gold"), filepath.Join(tree, "file")))
			check(t, os.Symlink("..", filepath.Join(tree, "up")))
			check(t, os.Symlink("loop", filepath.Join(tree, "loop")))
			check(t, removeTree(t.Context(), dir, "tree", guard))
			wantTreasure(t, outside)
			wantAbsent(t, tree)

			check(t, os.Symlink(outside, tree)) // in the place of the tree itself
			check(t, removeTree(t.Context(), dir, "tree", guard))
			wantTreasure(t, outside)
			wantAbsent(t, tree)
		})
	}
}

func TestRemoveTakesEveryTypeOfFile(t *testing.T) {
	each := oneOfEach(t)
	write(t, filepath.Join(each, "directory", "file"), "")
	check(t, os.Chmod(filepath.Join(each, "directory"), 0))
	check(t, removeTree(t.Context(), filepath.Dir(each), filepath.Base(each), openat2))
	wantAbsent(t, each)
	write(t, each, "a file in the place of the tree")
	check(t, removeTree(t.Context(), filepath.Dir(each), filepath.Base(each), openat2))
	wantAbsent(t, each)
}

// deepen makes directories in dir, each within the one before, deeper than a
// path can be.
func deepen(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, openDirFlags, 0)
	check(t, err)
	for i := range levels {
		name := fmt.Sprintf("level-%020d", i)
		check(t, unix.Mkdirat(fd, name, 0o700))
		next, err := unix.Openat(fd, name, openDirFlags, 0)
		check(t, err)
		file, err := unix.Openat(next, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		check(t, err)
		unix.Close(file)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func limitOpenFiles(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}))
	t.Cleanup(func() { check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
}

func TestRemoveTakesTreesDeeperThanAPathCanBe(t *testing.T) {
	v := newVolumes(t)
	volume := ensureOne(t, v, podWith(emptyDir("data", corev1.EmptyDirVolumeSource{})))
	deepen(t, volume, 1000)
	// As a removal that was interrupted may have left them.
	left := filepath.Join(v.pods, string(uid))
	check(t, os.MkdirAll(filepath.Join(left, ".moved-1", "full"), 0o700))
	write(t, filepath.Join(left, ".moved-2"), "")
	check(t, os.Mkdir(filepath.Join(left, ".moved-3"), 0o700))
	limitOpenFiles(t, 256)
	check(t, v.Remove(t.Context(), uid))
	wantAbsent(t, left)
}

func TestMovingUpPassesOverNamesInUse(t *testing.T) {
	dir := t.TempDir()
	for _, full := range []string{".moved-1/full", "deep/full"} {
		check(t, os.MkdirAll(filepath.Join(dir, full), 0o700))
	}
	write(t, filepath.Join(dir, ".moved-2"), "")
	fd, err := unix.Open(dir, openDirFlags, 0)
	check(t, err)
	defer unix.Close(fd)
	r := &remover{top: fd}
	check(t, r.moveUp(fd, "deep"))
	if mode := modeOf(t, filepath.Join(dir, ".moved-3", "full")); !mode.IsDir() {
		t.Errorf("mode %v", mode)
	}
}

func TestRemoveTakesDirectoriesOfManyFiles(t *testing.T) {
	v := newVolumes(t)
	volume := ensureOne(t, v, podWith(emptyDir("data", corev1.EmptyDirVolumeSource{})))
	for i := range 3000 {
		write(t, filepath.Join(volume, fmt.Sprint(i)), "")
	}
	check(t, v.Remove(t.Context(), uid))
	wantAbsent(t, volume)
}

func TestRemoveGoesOnWhereItWasInterrupted(t *testing.T) {
	v := newVolumes(t)
	volume := ensureOne(t, v, podWith(emptyDir("data", corev1.EmptyDirVolumeSource{})))
	write(t, filepath.Join(volume, "file"), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := v.Remove(ctx, uid)
	wantClass(t, err, pod.Unavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	check(t, v.Remove(t.Context(), uid))
	wantAbsent(t, volume)
}
