package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// crashes is how often the agent is killed in the middle of each thing, at
// moments spread over the time that it takes.
const crashes = 10

// seed is the seed document's pod of two containers. Its shell ends at SIGTERM,
// so that no grace is waited for.
func seed(t *testing.T) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile("../../scripts/testdata/seed-nginx.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		t.Fatal(err)
	}
	seconds := grace
	p.Spec.TerminationGracePeriodSeconds = &seconds
	truncator := &p.Spec.Containers[1]
	truncator.Args[1] = "trap 'exit 0' TERM; " + strings.ReplaceAll(truncator.Args[1], "sleep 10", "sleep 10 & wait $!")
	if !strings.Contains(truncator.Args[1], "& wait") {
		t.Fatalf("the seed's command is another than it was: %s", truncator.Args[1])
	}
	return p
}

// crash kills the agent the given time after now, and starts it again.
func (a *agent) crash(t *testing.T, after time.Duration) {
	t.Helper()
	time.Sleep(after) // the moment is what is varied
	a.kill()
	a.start(t)
}

// moment is when to kill for the nth time what takes as long as given.
func moment(n int, takes time.Duration) time.Duration {
	return takes * time.Duration(2*n+1) / (2 * crashes)
}

// wantOnce fails unless Podman has one sandbox of the pod, and in it, alive, the
// seed's two containers and the infra container.
func (a *agent) wantOnce(t *testing.T, name string, alive map[string]container) {
	t.Helper()
	if pods := a.podmanPods(t, name); len(pods) != 1 {
		t.Errorf("there are %d Podman pods of one pod", len(pods))
	}
	if len(alive) != 3 {
		t.Errorf("what lives is %v, want two containers and their infra container", alive)
	}
}

func TestCrashWhileStarting(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	p, name := seed(t), static("nginx")
	began := time.Now()
	a.drop(t, p)
	a.awaitRunning(t, name, "nginx", "log-truncator")
	takes := time.Since(began)
	for n := range crashes {
		a.remove(t, "nginx.yaml")
		a.awaitGone(t, name)
		a.drop(t, p)
		a.crash(t, moment(n, takes))
		alive := a.awaitRunning(t, name, "nginx", "log-truncator")
		a.wantOnce(t, name, alive)
		for _, c := range a.containers(t, name) {
			if !c.live() || c.attempt() != 0 {
				t.Errorf("killed after %s of %s, the agent left or restarted %s", moment(n, takes), takes, c)
			}
		}
	}
}

func TestCrashWhileEditing(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	p, name := seed(t), static("nginx")
	a.drop(t, p)
	was := a.awaitRunning(t, name, "nginx", "log-truncator")
	edit := func(value string) {
		p.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "N", Value: value}}
		a.drop(t, p)
	}
	began := time.Now()
	edit("first")
	a.awaitGeneration(t, name, 2)
	takes := time.Since(began)
	for n := range crashes {
		value := moment(n, takes).String()
		edit(value)
		a.crash(t, moment(n, takes))
		alive := a.awaitGeneration(t, name, int64(n+3))
		a.wantOnce(t, name, alive)
		same(t, was, alive, "POD", "nginx")
		if env := a.inspect(t, alive["log-truncator"].ID, "{{.Config.Env}}"); !strings.Contains(env, "N="+value) {
			t.Errorf("killed after %s of %s, the agent runs the old container: %s", moment(n, takes), takes, env)
		}
		if got, want := alive["log-truncator"].attempt(), n+2; got != want {
			t.Errorf("killed after %s of %s, the agent is at attempt %d, want %d", moment(n, takes), takes, got, want)
		}
	}
}

func TestCrashWhileDeleting(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	p, name := seed(t), static("nginx")
	a.drop(t, p)
	a.awaitRunning(t, name, "nginx", "log-truncator")
	began := time.Now()
	a.remove(t, "nginx.yaml")
	a.awaitGone(t, name)
	takes := time.Since(began)
	for n := range crashes {
		a.drop(t, p)
		a.awaitRunning(t, name, "nginx", "log-truncator")
		a.remove(t, "nginx.yaml")
		a.crash(t, moment(n, takes))
		a.ready(t)
		a.awaitGone(t, name)
		if left := a.volumesLeft(t); len(left) > 0 {
			t.Errorf("killed after %s of %s, the agent left the volumes of %v", moment(n, takes), takes, left)
		}
	}
}
