package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// asking is a sleeper of another image and pull policy.
func asking(name, image string, policy corev1.PullPolicy) corev1.Container {
	c := sleeper(name)
	c.Image, c.ImagePullPolicy = image, policy
	return c
}

// TestImagesOffline is a node whose registry can't be reached.
func TestImagesOffline(t *testing.T) {
	t.Parallel()
	a := startAgent(t)

	t.Run("present", func(t *testing.T) {
		began := time.Now()
		a.drop(t, newPod("seed", nginx(), asking("always", "busybox", corev1.PullAlways)))
		a.drop(t, newPod("present", asking("a", "busybox", corev1.PullIfNotPresent), asking("b", "docker.io/library/busybox:latest", corev1.PullNever)))
		a.awaitRunning(t, static("seed"), "nginx", "always")
		a.awaitRunning(t, static("present"), "a", "b")
		// The agent's own wait for a registry is 5 s at most; Podman's would be more.
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %s to start without a registry", took)
		}
		a.awaitEvent(t, static("seed"), corev1.EventTypeWarning, "RegistryUnavailable", "docker.io")
		a.awaitEvent(t, static("present"), corev1.EventTypeNormal, "Pulled", "already present")
		rows, err := a.sql("SELECT message FROM events WHERE pod = ?1 AND type = 'Warning'", static("present"))
		if err != nil || len(rows) > 0 {
			t.Errorf("a present image has warnings %v (%v)", rows, err)
		}
		if a.seedImage(t) == "" {
			t.Error("the status does not tell which image runs")
		}
	})
	t.Run("absent", func(t *testing.T) {
		a.drop(t, newPod("absent", asking("missing", "docker.io/library/nothing:1", corev1.PullIfNotPresent), sleeper("other")))
		// Neither the pod's other container nor the next pod waits for it.
		a.drop(t, newPod("next", sleeper("a")))
		a.awaitRunning(t, static("next"), "a")
		s := a.awaitStatus(t, static("absent"), "runs without one container", func(s corev1.PodStatus) bool {
			reason := waitsFor(s, "missing")
			return statusOf(s, "other").State.Running != nil && (reason == "ErrImagePull" || reason == "ImagePullBackOff")
		}).Status
		if message := statusOf(s, "missing").State.Waiting.Message; !strings.Contains(message, "docker.io/library/nothing:1") {
			t.Errorf("the message does not name the image: %q", message)
		}
	})
	t.Run("Never", func(t *testing.T) {
		a.drop(t, newPod("never", asking("a", "docker.io/library/elsewhere:1", corev1.PullNever)))
		a.awaitStatus(t, static("never"), "waits for its image", func(s corev1.PodStatus) bool { return waitsFor(s, "a") == "ErrImageNeverPull" })
		mustPodman(t, a, "tag", "busybox", "docker.io/library/elsewhere:1")
		a.awaitRunning(t, static("never"), "a")
	})
}

// seedImage is the ID of the image that nginx runs, as Podman and the agent agree.
func (a *agent) seedImage(t *testing.T) string {
	t.Helper()
	id := statusOf(a.mustPod(t, static("seed")).Status, "nginx").ImageID
	if has := mustPodman(t, a, "image", "inspect", "nginx", "--format", "{{.Id}}"); !strings.Contains(id, has) {
		t.Errorf("the agent says that image %q runs, and Podman has %s", id, has)
	}
	return id
}

// TestImagesFromRegistry pulls from a registry that answers.
func TestImagesFromRegistry(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	a.host.StartRegistry("", "")
	ours := a.host.Registry + "/team/app:1"
	mustPodman(t, a, "push", "--quiet", "docker.io/library/busybox:latest", ours)

	t.Run("pulled", func(t *testing.T) {
		a.drop(t, newPod("pulled", asking("a", ours, corev1.PullIfNotPresent)))
		a.awaitRunning(t, static("pulled"), "a")
		a.awaitEvent(t, static("pulled"), corev1.EventTypeNormal, "Pulled", "Successfully pulled")
		mustPodman(t, a, "image", "exists", ours)
	})
	t.Run("Always and up to date", func(t *testing.T) {
		a.drop(t, newPod("current", asking("a", ours, corev1.PullAlways)))
		a.awaitRunning(t, static("current"), "a")
		a.awaitEvent(t, static("current"), corev1.EventTypeNormal, "Pulled", "already present")
	})
	t.Run("Always and newer in the registry", func(t *testing.T) {
		mustPodman(t, a, "push", "--quiet", "docker.io/library/nginx:latest", ours)
		want := mustPodman(t, a, "image", "inspect", "nginx", "--format", "{{.Id}}")
		a.drop(t, newPod("newer", corev1.Container{Name: "a", Image: ours, ImagePullPolicy: corev1.PullAlways}))
		is := a.awaitRunning(t, static("newer"), "a")
		if got := a.inspect(t, is["a"].ID, "{{.Image}}"); got != want {
			t.Errorf("the image that runs is %s, and the registry has %s", got, want)
		}
	})
	t.Run("not found, then there", func(t *testing.T) {
		later := a.host.Registry + "/team/later:1"
		a.drop(t, newPod("later", asking("a", later, corev1.PullIfNotPresent), sleeper("b")))
		s := a.awaitStatus(t, static("later"), "is backed off", func(s corev1.PodStatus) bool {
			return waitsFor(s, "a") == "ImagePullBackOff" && statusOf(s, "b").State.Running != nil
		}).Status
		if message := statusOf(s, "a").State.Waiting.Message; !strings.Contains(message, "MANIFEST_UNKNOWN") && !strings.Contains(message, "NAME_UNKNOWN") {
			t.Errorf("the registry's own words are missing: %q", message)
		}
		a.awaitEvent(t, static("later"), corev1.EventTypeWarning, "Failed", "ErrImagePull")
		was := a.live(t, static("later"))

		// An edit to an image that is there does not wait for the back-off's end.
		mustPodman(t, a, "push", "--quiet", "docker.io/library/busybox:latest", later)
		c := asking("a", later, corev1.PullIfNotPresent)
		began := time.Now()
		a.drop(t, newPod("later", with(c, "N", "1"), sleeper("b")))
		same(t, was, a.awaitRunning(t, static("later"), "a", "b"), "POD", "b")
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("an edit waited %s for the back-off", took)
		}
	})
}

// TestImageDenied has a registry that asks for a login.
func TestImageDenied(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	a.host.StartRegistry("someone", "secret")
	private := a.host.Registry + "/team/private:1"
	a.drop(t, newPod("denied", asking("a", private, corev1.PullIfNotPresent), sleeper("b")))
	s := a.awaitStatus(t, static("denied"), "is denied its image", func(s corev1.PodStatus) bool {
		return waitsFor(s, "a") == "ErrImagePull" && statusOf(s, "b").State.Running != nil
	}).Status
	if message := statusOf(s, "a").State.Waiting.Message; !strings.Contains(message, "UNAUTHORIZED") {
		t.Errorf("the registry's own words are missing: %q", message)
	}
}
