package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// outage is a way for Podman's service to be of no use, and back.
type outage struct {
	name       string
	begin, end func()
}

// TestPodmanOutage edits, deletes and adds pods while nothing can be done about
// it, and kills a container. The agent answers all the time
// (nomad-driver-podman#229), and what ran is adopted when Podman is back
// (kubeedge#4048, kubeedge#3941).
func TestPodmanOutage(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--sync-frequency", "5s")
	for _, o := range []outage{
		{"stopped", a.host.Stop, a.host.Start},
		{"killed", a.host.Kill, a.host.Start},
		{"hung", a.host.Pause, a.host.Resume},
	} {
		t.Run(o.name, func(t *testing.T) { a.throughOutage(t, o) })
	}
	t.Run("stopping while Podman hangs", func(t *testing.T) {
		was := a.startQuiet(t)
		a.host.Pause()
		a.drop(t, newPod("late", sleeper("a"))) // a call that hangs
		a.awaitKnown(t, static("late"))
		a.stopInTime(t)
		a.start(t) // it answers without Podman
		a.host.Resume()
		a.awaitRunning(t, static("late"), "a")
		same(t, was, a.awaitRunning(t, static("quiet"), "a"))
	})
}

func (a *agent) startQuiet(t *testing.T) map[string]container {
	t.Helper()
	a.drop(t, newPod("quiet", sleeper("a")))
	return a.awaitRunning(t, static("quiet"), "a")
}

func (a *agent) awaitKnown(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the agent knows of pod "+name, func() error {
		_, err := a.pod(name)
		return err
	})
}

func (a *agent) throughOutage(t *testing.T, o outage) {
	quiet := a.startQuiet(t)
	a.drop(t, newPod("edited", sleeper("a"), sleeper("b")))
	a.drop(t, newPod("deleted", sleeper("a")))
	a.drop(t, newPod("hit", sleeper("a"), sleeper("b")))
	edited := a.awaitRunning(t, static("edited"), "a", "b")
	a.awaitRunning(t, static("deleted"), "a")
	hit := a.awaitRunning(t, static("hit"), "a", "b")

	o.begin()
	end := sync.OnceFunc(o.end)
	defer end() // what comes after a failure starts with a Podman that answers
	a.drop(t, newPod("edited", sleeper("a"), with(sleeper("b"), "N", o.name)))
	a.remove(t, "deleted.yaml")
	a.drop(t, newPod("new", sleeper("a")))
	shoot(t, hit["a"])
	a.answersMeanwhile(t)
	end()

	is := a.awaitGeneration(t, static("edited"), 2)
	same(t, edited, is, "POD", "a")
	replaced(t, edited, is, "b")
	a.awaitGone(t, static("deleted"))
	a.awaitRunning(t, static("new"), "a")
	eventually(t, "what was killed runs again", func() error {
		err := a.allRun(static("hit"), "a", "b")
		if err != nil {
			return err
		}
		return unless(a.live(t, static("hit"))["a"].ID != hit["a"].ID, "it is the one that was killed")
	})
	same(t, hit, a.live(t, static("hit")), "POD", "b")
	same(t, quiet, a.awaitRunning(t, static("quiet"), "a"))
	a.ready(t)
	a.clear(t, "quiet", "edited", "new", "hit")
}

// answersMeanwhile fails unless the agent knows of all that is wanted, and says
// what is the matter, while Podman does not answer.
func (a *agent) answersMeanwhile(t *testing.T) {
	t.Helper()
	eventually(t, "the agent knows what is wanted", func() error {
		p, err := a.pod(static("edited"))
		if err != nil {
			return err
		}
		if _, err := a.pod(static("new")); err != nil {
			return err
		}
		gone, err := a.pod(static("deleted"))
		if err != nil {
			return err
		}
		return unless(p.Generation == 2 && gone.DeletionTimestamp != nil, "the edit or the deletion was not taken")
	})
	if err := a.healthy("/healthz"); err != nil {
		t.Error(err)
	}
	eventually(t, "the agent says that Podman does not answer", func() error {
		got := a.asked(t, request{path: "/readyz"})
		return unless(got.status == http.StatusInternalServerError && strings.Contains(string(got.body), "[-]podman"), "%s", got.body)
	})
	began := time.Now()
	a.prints(t, "get", "pods")
	a.prints(t, "why", "edited")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the client had to wait for %s", took)
	}
}

// clear removes pods by their files.
func (a *agent) clear(t *testing.T, files ...string) {
	t.Helper()
	for _, name := range files {
		a.remove(t, name+".yaml")
	}
	for _, name := range files {
		a.awaitGone(t, static(name))
	}
}
