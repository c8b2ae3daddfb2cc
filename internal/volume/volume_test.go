package volume

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

const uid = types.UID("6f0f6d3e-5f4e-4c39-9d5a-0a4a3a0d9b11")

// newVolumes are volumes in a directory that has no mount left in the end.
func newVolumes(t *testing.T) *Volumes {
	t.Helper()
	return New(mountableDir(t))
}

// mountableDir is a temporary directory, freed of mounts before it is deleted.
func mountableDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := unmountBelow(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func podWith(volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid},
		Spec:       corev1.PodSpec{Volumes: volumes},
	}
}

func emptyDir(name string, source corev1.EmptyDirVolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &source}}
}

// ensureOne makes the volumes of a pod ready and returns the path of the first.
func ensureOne(t *testing.T, v *Volumes, p *corev1.Pod) string {
	t.Helper()
	paths, err := v.Ensure(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return paths[p.Spec.Volumes[0].Name]
}

// check ends the test on an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantClass(t *testing.T, err error, class pod.Class) {
	t.Helper()
	if got := pod.ClassOf(err); got != class {
		t.Fatalf("class %q, want %q: %v", got, class, err)
	}
}

func wantError(t *testing.T, err error, class pod.Class, text string) {
	t.Helper()
	wantClass(t, err, class)
	if err.Error() != text {
		t.Errorf("got  %s\nwant %s", err, text)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(content), 0o600))
}

func wantContent(t *testing.T, path, content string) {
	t.Helper()
	got, err := os.ReadFile(path)
	check(t, err)
	if string(got) != content {
		t.Errorf("%s holds %q, want %q", path, got, content)
	}
}

func wantAbsent(t *testing.T, path string) {
	t.Helper()
	if info, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v, %v", path, info, err)
	}
}

// mountsBelow are the mount points on a directory and below it.
func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	check(t, err)
	var points []string
	for _, m := range mounts {
		points = append(points, m.Mountpoint)
	}
	return points
}

func bind(t *testing.T, from, to string) {
	t.Helper()
	check(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
}

func TestEnsureAnswersThePathOfEachVolume(t *testing.T) {
	v := newVolumes(t)
	host := t.TempDir()
	paths, err := v.Ensure(t.Context(), podWith(
		emptyDir("data", corev1.EmptyDirVolumeSource{}),
		corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}},
	))
	check(t, err)
	want := filepath.Join(v.pods, string(uid), "volumes", "kubernetes.io~empty-dir", "data")
	if len(paths) != 2 || paths["data"] != want || paths["host"] != host {
		t.Errorf("got %v", paths)
	}
}

func TestAPodWithoutVolumesNeedsNoDirectory(t *testing.T) {
	v := newVolumes(t)
	paths, err := v.Ensure(t.Context(), podWith())
	check(t, err)
	if len(paths) != 0 {
		t.Errorf("got %v", paths)
	}
	wantAbsent(t, v.pods)
}

func TestAVolumeOfAnotherKindIsRefused(t *testing.T) {
	v := newVolumes(t)
	_, err := v.Ensure(t.Context(), podWith(corev1.Volume{Name: "claim", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
	}}))
	wantError(t, err, pod.Invalid, "prepare volume claim: its kind is not supported yet")
}

func TestEnsureObeysItsContext(t *testing.T) {
	v := newVolumes(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := v.Ensure(ctx, podWith(emptyDir("data", corev1.EmptyDirVolumeSource{})))
	wantClass(t, err, pod.Unavailable)
	wantAbsent(t, v.pods)
}

func TestAUIDThatLeadsElsewhereIsRefused(t *testing.T) {
	v := newVolumes(t)
	for _, bad := range []types.UID{"", ".", "..", "../../etc", "a/b"} {
		wantClass(t, v.Remove(t.Context(), bad), pod.Internal)
		p := podWith(emptyDir("data", corev1.EmptyDirVolumeSource{}))
		p.UID = bad
		_, err := v.Ensure(t.Context(), p)
		wantClass(t, err, pod.Internal)
	}
}

func TestListNamesThePodsThatHaveADirectory(t *testing.T) {
	v := newVolumes(t)
	uids, err := v.List()
	check(t, err)
	if len(uids) != 0 {
		t.Errorf("an agent that has made nothing lists %v", uids)
	}
	for _, id := range []types.UID{"b", "a"} {
		p := podWith(emptyDir("data", corev1.EmptyDirVolumeSource{}))
		p.UID = id
		ensureOne(t, v, p)
	}
	write(t, filepath.Join(v.pods, "note"), "not a pod")
	uids, err = v.List()
	check(t, err)
	if !slices.Equal(uids, []types.UID{"a", "b"}) {
		t.Errorf("got %v", uids)
	}
	check(t, v.Remove(t.Context(), "a"))
	uids, err = v.List()
	check(t, err)
	if !slices.Equal(uids, []types.UID{"b"}) {
		t.Errorf("got %v", uids)
	}
}
