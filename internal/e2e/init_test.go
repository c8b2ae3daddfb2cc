package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// noted gives the containers a file, /notes/log, that they and the test see.
func (a *agent) noted(t *testing.T, p *corev1.Pod) (file string) {
	t.Helper()
	dir := filepath.Join(a.host.Dir, "notes-"+p.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
		Name: "notes", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
	})
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: "notes", MountPath: "/notes"})
		}
	}
	return filepath.Join(dir, "log")
}

// notes are the lines that containers have written.
func notes(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(content))
}

func wantNotes(t *testing.T, file string, want ...string) {
	t.Helper()
	eventually(t, "the containers have done their work", func() error {
		got := notes(t, file)
		return unless(slices.Equal(got, want), "they noted %v, want %v", got, want)
	})
}

func note(word string) string { return "echo " + word + " >>/notes/log; " }

// TestInitContainers has init containers succeed, fail for good and fail for a
// while. None is run again that has done its work (podman#16343).
func TestInitContainers(t *testing.T) {
	t.Parallel()
	a := startAgent(t)

	t.Run("in order", func(t *testing.T) {
		p := newPod("order", shell("app", note("app")+sleeping))
		p.Spec.InitContainers = []corev1.Container{
			shell("first", note("first-begins")+"sleep 1; "+note("first-ends")),
			shell("second", note("second-begins")+"sleep 1; "+note("second-ends")),
		}
		file := a.noted(t, p)
		a.drop(t, p)
		a.awaitStatus(t, static("order"), "initialises", func(s corev1.PodStatus) bool { return waitsFor(s, "app") == "PodInitializing" })
		was := a.awaitRunning(t, static("order"), "app")
		wantNotes(t, file, "first-begins", "first-ends", "second-begins", "second-ends", "app")
		s := a.mustPod(t, static("order")).Status
		for _, name := range []string{"first", "second"} {
			if e := ended(s, name); e.Reason != "Completed" || !statusOf(s, name).Ready {
				t.Errorf("the status of init container %s is %+v", name, statusOf(s, name))
			}
		}

		a.kill()
		a.start(t)
		a.ready(t)
		a.proveAlive(t)
		same(t, was, a.awaitRunning(t, static("order"), "app"))
		wantNotes(t, file, "first-begins", "first-ends", "second-begins", "second-ends", "app")
	})
	t.Run("failure under Never", func(t *testing.T) {
		p := newPod("fails", shell("app", note("app")+sleeping))
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{shell("bad", note("bad")+"exit 3"), shell("next", note("next"))}
		file := a.noted(t, p)
		a.drop(t, p)
		s := a.awaitStatus(t, static("fails"), "fails", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodFailed }).Status
		if e := ended(s, "bad"); e.ExitCode != 3 || e.Reason != "Error" {
			t.Errorf("the failed init container's status is %+v", statusOf(s, "bad"))
		}
		wantNotes(t, file, "bad")
		if alive := a.live(t, static("fails")); len(names(alive)) > 0 {
			t.Errorf("of a failed pod runs %v", alive)
		}
	})
	t.Run("failure at first", func(t *testing.T) {
		p := newPod("retries", shell("app", note("app")+sleeping))
		p.Spec.InitContainers = []corev1.Container{shell("late", `echo try >>/notes/log; [ $(wc -l </notes/log) -ge 2 ]`)}
		file := a.noted(t, p)
		a.drop(t, p)
		a.awaitRunning(t, static("retries"), "app")
		wantNotes(t, file, "try", "try", "app")
		if n := statusOf(a.mustPod(t, static("retries")).Status, "late").RestartCount; n != 1 {
			t.Errorf("the init container was restarted %d times, want 1", n)
		}
	})
}
