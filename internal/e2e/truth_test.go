package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"podstead.io/podstead/internal/pod"
)

// container is one attempt at a container as the podman command shows it.
type container struct {
	ID        string `json:"Id"`
	Sandbox   string `json:"Pod"`
	Infra     bool   `json:"IsInfra"`
	Labels    map[string]string
	State     string
	PID       int   `json:"Pid"`
	StartedAt int64 // seconds since 1970
	ExitCode  int
}

// name is the container's name in its pod.
func (c container) name() string { return c.Labels[pod.LabelContainerName] }

func (c container) attempt() int {
	n, err := strconv.Atoi(c.Labels[pod.LabelAttempt])
	if err != nil {
		return -1
	}
	return n
}

func (c container) live() bool {
	return (c.State == "running" || c.State == "paused") && startTime(c.PID) != ""
}

// String is for messages.
func (c container) String() string {
	return fmt.Sprintf("%s of %s, attempt %d, %s, process %d", c.name(), c.Labels[pod.LabelPodName], c.attempt(), c.State, c.PID)
}

// containers is everything in Podman that is of the pod, infra containers
// included; an empty name stands for all pods.
func (a *agent) containers(t *testing.T, name string) []container {
	t.Helper()
	filter := "label=" + pod.LabelNode
	if name != "" {
		filter = "label=" + pod.LabelPodName + "=" + name
	}
	out, err := a.host.Podman("ps", "--all", "--no-trunc", "--format", "json", "--filter", filter)
	if err != nil {
		t.Fatal(err)
	}
	var list []container
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("podman ps: %v in %s", err, out)
	}
	return list
}

// live is what runs of the pod, by container name; the infra container's is POD.
// Two live attempts at one container fail the test, whoever looks and whenever.
func (a *agent) live(t *testing.T, name string) map[string]container {
	t.Helper()
	alive := map[string]container{}
	for _, c := range a.containers(t, name) {
		if !c.live() {
			continue
		}
		if other, twice := alive[c.name()]; twice {
			t.Fatalf("two at once: %s, and %s", other, c)
		}
		alive[c.name()] = c
	}
	return alive
}

// names are the containers that run, without the infra container.
func names(alive map[string]container) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(alive)), func(name string) bool { return name == pod.SandboxContainerName })
}

// same fails unless each of the containers named is the very process that it
// was; without names: all that ran before, the infra container included, and no
// other.
func same(t *testing.T, before, after map[string]container, which ...string) {
	t.Helper()
	if len(which) == 0 {
		which = slices.Sorted(maps.Keys(before))
		if len(after) != len(before) {
			t.Errorf("what runs has changed: %v before, %v now", before, after)
		}
	}
	for _, name := range which {
		was, is := before[name], after[name]
		if was.ID == "" || is.ID != was.ID || is.PID != was.PID || is.StartedAt != was.StartedAt {
			t.Errorf("container %s is not the same: %v before, %v now", name, was, is)
		}
	}
}

// replaced fails unless each of the containers named is another than before.
func replaced(t *testing.T, before, after map[string]container, which ...string) {
	t.Helper()
	for _, name := range which {
		was, is := before[name], after[name]
		if was.ID == is.ID || is.ID == "" {
			t.Errorf("container %s was not replaced: %v before, %v now", name, was, is)
		}
	}
}

// podmanPods are the Podman pods of the pod; an empty name stands for all.
func (a *agent) podmanPods(t *testing.T, name string) []string {
	t.Helper()
	filter := "label=" + pod.LabelNode
	if name != "" {
		filter = "label=" + pod.LabelPodName + "=" + name
	}
	out, err := a.host.Podman("pod", "ps", "--no-trunc", "--quiet", "--filter", filter)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

// inspect reads one value of a container or image by Podman's template.
func (a *agent) inspect(t *testing.T, id, template string) string {
	t.Helper()
	out, err := a.host.Podman("inspect", id, "--format", template)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// logs is what a container has printed.
func (a *agent) logs(t *testing.T, id string) string {
	t.Helper()
	out, err := a.host.Podman("logs", id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// exec runs a command in a container and returns what it prints.
func (a *agent) exec(t *testing.T, id string, command ...string) string {
	t.Helper()
	out, err := a.host.Podman(append([]string{"exec", id}, command...)...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
