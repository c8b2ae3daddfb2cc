package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// disturb runs fn on a running container and waits for the next attempt.
func (a *agent) disturb(t *testing.T, name, which string, fn func(container)) (was, is map[string]container) {
	t.Helper()
	was = a.live(t, name)
	fn(was[which])
	a.awaitStatus(t, name, "runs container "+which+" again", func(s corev1.PodStatus) bool {
		c := statusOf(s, which)
		return c.State.Running != nil && c.ContainerID != "podman://"+was[which].ID
	})
	return was, a.live(t, name)
}

// wantWhy waits until the client gives the cause of the end of a container's only
// attempt that has ended, in the table and in words. That someone stopped it is
// known a moment after it has ended.
func (a *agent) wantWhy(t *testing.T, name, which, event, cause, words string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the end of container %s is recorded as %s with cause %s", which, event, cause), func() error {
		rows, err := a.sql(`SELECT event, cause, detail FROM transitions WHERE pod = ?1 AND container = ?2 AND event IN ('exit', 'vanish') ORDER BY rowid`, name, which)
		if err != nil {
			return err
		}
		return unless(len(rows) == 1 && (rows[0]["event"] == event || event == "") && rows[0]["cause"] == cause, "it is recorded as %v", rows)
	})
	contains(t, a.prints(t, "why", strings.TrimSuffix(name, "-"+nodeName)+"/"+which), words)
}

// TestBehindTheAgentsBack does to each container of a pod what people do.
func TestBehindTheAgentsBack(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	name := static("web")
	each := []string{"stopped", "killed", "removed", "shot", "untouched"}
	var all []corev1.Container
	for _, c := range each {
		all = append(all, sleeper(c))
	}
	a.drop(t, newPod("web", all...))
	first := a.awaitRunning(t, name, each...)

	t.Run("podman stop", func(t *testing.T) {
		a.disturb(t, name, "stopped", func(c container) { mustPodman(t, a, "stop", "--time", "5", c.ID) })
		a.wantWhy(t, name, "stopped", "exit", "user", "someone asked for it")
	})
	t.Run("podman kill", func(t *testing.T) {
		a.disturb(t, name, "killed", func(c container) { mustPodman(t, a, "kill", c.ID) })
		a.wantWhy(t, name, "killed", "exit", "user", "someone asked for it")
	})
	t.Run("podman rm", func(t *testing.T) {
		a.disturb(t, name, "removed", func(c container) { mustPodman(t, a, "rm", "--force", "--time", "0", c.ID) })
		// Podman kills before it removes: either may be seen first.
		a.wantWhy(t, name, "removed", "", "user", "someone asked for it")
	})
	t.Run("kill -9", func(t *testing.T) {
		_, is := a.disturb(t, name, "shot", func(c container) { shoot(t, c) })
		a.wantWhy(t, name, "shot", "exit", "exit", "exit code 137")
		same(t, first, is, "POD", "untouched")
	})
	t.Run("infra container", func(t *testing.T) {
		was, _ := a.disturb(t, name, "untouched", func(container) { shoot(t, a.live(t, name)["POD"]) })
		is := a.awaitRunning(t, name, each...)
		replaced(t, was, is, each...)
		if was["POD"].PID == is["POD"].PID {
			t.Errorf("the infra container was killed and is %s", is["POD"])
		}
		a.wantState(t, name, "recreate", "exit")
	})
	t.Run("podman pod rm", func(t *testing.T) {
		was, _ := a.disturb(t, name, "untouched", func(c container) { mustPodman(t, a, "pod", "rm", "--force", "--time", "0", c.Sandbox) })
		is := a.awaitRunning(t, name, each...)
		replaced(t, was, is, append(each, "POD")...)
		a.wantState(t, name, "recreate", "user")
		if pods := a.podmanPods(t, name); len(pods) != 1 {
			t.Errorf("there are %d Podman pods of it", len(pods))
		}
	})
}

// TestStopsAreToldApart has the agent and a person stop a container each
// (podman#28152, podman#20418, balena#1991), and asks again after the agent was
// killed: reasons do not vanish (kubernetes#52521, 69676, balena#1569).
func TestStopsAreToldApart(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	name := static("web")
	a.drop(t, newPod("web", sleeper("edited"), sleeper("stopped")))
	was := a.awaitRunning(t, name, "edited", "stopped")
	a.drop(t, newPod("web", with(sleeper("edited"), "N", "1"), sleeper("stopped")))
	is := a.awaitGeneration(t, name, 2)
	same(t, was, is, "POD", "stopped")
	a.disturb(t, name, "stopped", func(c container) { mustPodman(t, a, "stop", "--time", "5", c.ID) })
	told := func() {
		t.Helper()
		a.wantWhy(t, name, "edited", "exit", "source", "its specification changed")
		a.wantWhy(t, name, "stopped", "exit", "user", "someone asked for it")
	}
	told()
	a.kill()
	a.start(t)
	a.ready(t)
	told()
}

// shoot kills a container's process as the kernel or a careless person does.
func shoot(t *testing.T, c container) {
	t.Helper()
	if c.PID == 0 {
		t.Fatalf("%s has no process", c)
	}
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// wantState fails unless the pod's latest such event has the cause.
func (a *agent) wantState(t *testing.T, name, event, cause string) {
	t.Helper()
	rows, err := a.sql(`SELECT cause, detail FROM transitions WHERE pod = ?1 AND machine = 'pod' AND event = ?2 ORDER BY rowid DESC LIMIT 1`, name, event)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0]["cause"] != cause {
		t.Errorf("the latest %s of pod %s is %v, want cause %s", event, name, rows, cause)
	}
}

// TestRepairFollowsPolicy ends containers whose policy does not restart them.
func TestRepairFollowsPolicy(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	made := func(name string, policy corev1.RestartPolicy, c corev1.Container) string {
		p := newPod(name, c)
		p.Spec.RestartPolicy = policy
		a.drop(t, p)
		return static(name)
	}

	t.Run("stopped under Never", func(t *testing.T) {
		name := made("stopped", corev1.RestartPolicyNever, sleeper("a"))
		mustPodman(t, a, "stop", "--time", "5", a.awaitRunning(t, name, "a")["a"].ID)
		a.awaitStatus(t, name, "has ended", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodSucceeded })
		a.wantWhy(t, name, "a", "exit", "user", "someone asked for it")
	})
	t.Run("killed under Never", func(t *testing.T) {
		name := made("killed", corev1.RestartPolicyNever, sleeper("a"))
		mustPodman(t, a, "kill", a.awaitRunning(t, name, "a")["a"].ID)
		s := a.awaitStatus(t, name, "has failed", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodFailed }).Status
		if e := ended(s, "a"); e.ExitCode != 137 {
			t.Errorf("it ended with %+v", e)
		}
	})
	t.Run("removed under Never", func(t *testing.T) {
		name := made("removed", corev1.RestartPolicyNever, sleeper("a"))
		mustPodman(t, a, "rm", "--force", "--time", "0", a.awaitRunning(t, name, "a")["a"].ID)
		a.awaitStatus(t, name, "has failed", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodFailed })
	})
	t.Run("out of memory", func(t *testing.T) {
		c := shell("a", "exec dd if=/dev/zero of=/dev/null bs=100M")
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("20Mi")}
		name := made("hungry", corev1.RestartPolicyNever, c)
		s := a.awaitStatus(t, name, "has failed", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodFailed }).Status
		if e := ended(s, "a"); e.Reason != "OOMKilled" || e.ExitCode != 137 {
			t.Errorf("it ended with %+v", e)
		}
		a.wantWhy(t, name, "a", "exit", "oom", "ran out of memory")
	})
	t.Run("paused", func(t *testing.T) {
		name := made("paused", corev1.RestartPolicyAlways, sleeper("a"))
		was := a.awaitRunning(t, name, "a")
		mustPodman(t, a, "pause", was["a"].ID)
		eventually(t, "the pause is seen", func() error { return a.observed(name, "paused") })
		mustPodman(t, a, "unpause", was["a"].ID)
		eventually(t, "its end is seen", func() error { return a.observed(name, "running") })
		same(t, was, a.live(t, name))
	})
	t.Run("what is not Podstead's", func(t *testing.T) {
		id := mustPodman(t, a, "run", "--detach", "--name", "stranger", "busybox", "sleep", "3600")
		labelled := mustPodman(t, a, "run", "--detach", "--label", "io.kubernetes.pod.uid=other", "busybox", "sleep", "3600")
		a.kill()
		a.start(t)
		a.ready(t)
		a.proveAlive(t)
		for _, stranger := range []string{id, labelled} {
			if state := a.inspect(t, stranger, "{{.State.Status}} {{.RestartCount}}"); state != "running 0" {
				t.Errorf("a container of someone else's is %s", state)
			}
		}
	})
}

func (a *agent) observed(name, state string) error {
	got, err := a.one(`SELECT state FROM containers WHERE pod = ?1`, name)
	if err != nil {
		return err
	}
	return unless(got == state, "it is %v", got)
}
