package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// squat is something in Podman that has a name which a pod wants.
type squat struct {
	pod string
	// wanted is the name, of which the UID is known once the agent is.
	wanted func(uid string) string
	// labels are what it carries, beside what the kind of squat gives it.
	labels func(id pod.Identity) map[string]string
	pods   bool   // it is a Podman pod, else a container
	reason string // of the event that tells of it
}

// foreign squats belong to someone else, whatever their labels say.
var foreign = []squat{
	{
		pod: "container", reason: "Failed",
		wanted: func(uid string) string { return "k8s_a_container-node_default_" + uid + "_0" },
	},
	{
		pod: "infra", reason: "FailedCreatePodSandBox",
		wanted: func(uid string) string { return "k8s_POD_infra-node_default_" + uid + "_0" },
	},
	{
		pod: "sandbox", reason: "FailedCreatePodSandBox", pods: true,
		wanted: func(uid string) string { return "k8s_sandbox-node_default_" + uid },
	},
	{
		pod: "another-nodes", reason: "Failed",
		wanted: func(uid string) string { return "k8s_a_another-nodes-node_default_" + uid + "_0" },
		labels: func(id pod.Identity) map[string]string { id.Node = "another"; return id.Labels() },
	},
	{
		pod: "half-labelled", reason: "Failed",
		wanted: func(uid string) string { return "k8s_a_half-labelled-node_default_" + uid + "_0" },
		labels: func(id pod.Identity) map[string]string { return map[string]string{pod.LabelNode: id.Node} },
	},
}

// occupy makes the squat and returns its ID.
func (s squat) occupy(t *testing.T, a *agent, uid string) string {
	t.Helper()
	var labels []string
	if s.labels != nil {
		node, err := a.one(`SELECT value FROM meta WHERE key = 'node_id'`)
		if err != nil {
			t.Fatal(err)
		}
		id := identityOf(s.pod, uid, fmt.Sprint(node))
		for _, k := range slices.Sorted(maps.Keys(s.labels(id))) {
			labels = append(labels, "--label", k+"="+s.labels(id)[k])
		}
	}
	if s.pods {
		return mustPodman(t, a, append([]string{"pod", "create", "--name", s.wanted(uid)}, labels...)...)
	}
	return mustPodman(t, a, append(append([]string{"run", "--detach", "--name", s.wanted(uid)}, labels...), "busybox", "sleep", "3600")...)
}

func identityOf(name, uid, node string) pod.Identity {
	id := pod.Identity{Node: node, Kind: pod.KindContainer, Container: "a", Revision: 1, Hash: "none"}
	id.Namespace, id.Name = "default", static(name)
	id.UID = types.UID(uid)
	return id
}

// TestNamesTaken has someone else's containers and pods hold the names that pods
// want (podman#27829, podman#24468, podman#4478): they are left alone, the pod
// says which name it is and what to do, its other containers run, and when the
// name is free it runs.
func TestNamesTaken(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--sync-frequency", "5s")
	a.host.Stop() // the names are known before Podman is asked for them
	uids := map[string]string{}
	for _, s := range foreign {
		a.drop(t, newPod(s.pod, sleeper("a"), sleeper("b")))
		a.awaitKnown(t, static(s.pod))
		uids[s.pod] = string(a.mustPod(t, static(s.pod)).UID)
	}
	squatters := map[string]string{}
	for _, s := range foreign {
		squatters[s.pod] = s.occupy(t, a, uids[s.pod])
	}
	was := a.squatters(t, squatters)
	a.host.Start()

	for _, s := range foreign {
		t.Run(s.pod, func(t *testing.T) {
			name := s.wanted(uids[s.pod])
			a.awaitEvent(t, static(s.pod), corev1.EventTypeWarning, s.reason, name)
			a.awaitEvent(t, static(s.pod), corev1.EventTypeWarning, s.reason, "remove it with podman, or rename it")
			contains(t, a.prints(t, "why", s.pod), name)
			if s.reason == "Failed" {
				a.awaitStatus(t, static(s.pod), "runs the container whose name is free", func(status corev1.PodStatus) bool {
					return statusOf(status, "b").State.Running != nil && waitsFor(status, "a") != ""
				})
			}
		})
	}
	a.ready(t)
	if is := a.squatters(t, squatters); !maps.Equal(was, is) {
		t.Fatalf("what is not the agent's was %v and is %v", was, is)
	}

	// A pod that can't run can be deleted, and what is in its way is not.
	gone, kept := foreign[0], foreign[1:]
	a.remove(t, gone.pod+".yaml")
	eventually(t, "the pod is forgotten", func() error { return a.forgotten(static(gone.pod)) })
	if is := a.squatters(t, squatters); !maps.Equal(was, is) {
		t.Errorf("what is not the agent's was %v and is %v", was, is)
	}
	for _, s := range kept {
		if s.pods {
			mustPodman(t, a, "pod", "rm", "--force", squatters[s.pod])
		} else {
			mustPodman(t, a, "rm", "--force", "--time", "0", squatters[s.pod])
		}
	}
	for _, s := range kept {
		a.awaitRunning(t, static(s.pod), "a", "b")
	}
}

// squatters is the process of each container, and the state of each pod.
func (a *agent) squatters(t *testing.T, ids map[string]string) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, s := range foreign {
		template := "{{.Name}} {{.State.Status}} {{.State.Pid}} {{.State.StartedAt}} {{.Config.Labels}}"
		if s.pods {
			state[s.pod] = mustPodman(t, a, "pod", "inspect", "--format", "{{.Name}} {{.State}} {{.NumContainers}}", ids[s.pod])
			continue
		}
		state[s.pod] = a.inspect(t, ids[s.pod], template)
	}
	return state
}

// TestOwnLeftoverHasTheName starts a pod whose container's name is taken by what
// carries the pod's own labels, as a power cut leaves it behind
// (podman#22431): outside the pod's sandbox and of an older manifest.
func TestOwnLeftoverHasTheName(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--sync-frequency", "5s")
	a.host.Stop()
	a.drop(t, newPod("web", sleeper("a"), sleeper("b")))
	a.awaitKnown(t, static("web"))
	own := squat{
		pod:    "web",
		wanted: func(uid string) string { return "k8s_a_web-node_default_" + uid + "_0" },
		labels: func(id pod.Identity) map[string]string { id.Revision = 7; return id.Labels() },
	}
	leftover := own.occupy(t, a, string(a.mustPod(t, static("web")).UID))
	a.host.Start()
	is := a.awaitRunning(t, static("web"), "a", "b")
	for _, c := range a.containers(t, static("web")) {
		if c.ID == leftover && c.live() {
			t.Errorf("the leftover runs on: %s", c)
		}
	}
	if is["a"].ID == leftover || is["a"].Sandbox != is["b"].Sandbox || is["a"].Sandbox == "" {
		t.Errorf("the pod runs as %v", is)
	}
}

// TestNamesOfOthersAreNotUsed has volumes and networks of the names that a pod's
// own things have: nothing of theirs is used, changed or removed.
func TestNamesOfOthersAreNotUsed(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	for _, name := range []string{"data", "web", static("web"), "podstead"} {
		mustPodman(t, a, "volume", "create", name)
		mustPodman(t, a, "network", "create", "--disable-dns", name)
	}
	state := func() string {
		return mustPodman(t, a, "volume", "ls", "--format", "{{.Name}} {{.Driver}}") + mustPodman(t, a, "network", "ls", "--no-trunc", "--format", "{{.ID}} {{.Name}}")
	}
	was := state()
	p := newPod("web", sleeper("a"))
	mounting(p, "data", emptyDir("", ""))
	a.drop(t, p)
	is := a.awaitRunning(t, static("web"), "a")
	a.exec(t, is["a"].ID, "touch", "/data/file")
	mounted := a.inspect(t, is["a"].ID, "{{range .Mounts}}{{.Type}} {{.Source}}\n{{end}}")
	if strings.Contains(mounted, "volume ") {
		t.Errorf("the pod mounts %s", mounted)
	}
	a.clear(t, "web")
	if now := state(); now != was {
		t.Errorf("Podman had\n%s\nand has\n%s", was, now)
	}
}
