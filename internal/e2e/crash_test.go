package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"podstead.io/podstead/internal/pod"
)

// TestCrash kills the agent, Podman or both at every step of what the agent does,
// and stops and hangs Podman, while it starts, edits and deletes pods. What is
// wanted runs in the end, once, and nothing was restarted that had no need to be.
//
// The kinds of fault it guards against: a name already in use after a power cut
// (podman#27829, podman#24468, containerd#9545), stuck Terminating after an
// agent's restart (kubernetes#51835, kubernetes#72604), and a second of each
// container.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, s := range scenes(t) {
		n := *kills * s.share / 100
		if n == 0 {
			continue
		}
		t.Run(s.name+", "+s.victim.name, func(t *testing.T) {
			t.Parallel()
			s.play(t, n)
		})
	}
}

// scenes are all of them. A share too small for one blow is left out.
func scenes(t *testing.T) []scene { return append(agentScenes(t), podmanScenes(t)...) }

// by has the victim struck in the scene, for so many hundredths of the blows that
// are asked for.
func (s scene) by(v victim, share int) scene {
	s.victim, s.share = v, share
	return s
}

// agentScenes kill the agent alone. Their shares make 100.
func agentScenes(t *testing.T) []scene {
	double := seedScene(t).by(agentKilled, 12)
	double.name, double.double = "one pod, struck again while it recovers", true
	return []scene{
		seedScene(t).by(agentKilled, 40),
		manyScene().by(agentKilled, 15),
		initScene().by(agentKilled, 8),
		backoffScene().by(agentKilled, 5),
		bootScene().by(agentKilled, 20),
		double,
	}
}

// podmanScenes are about Podman, alone or with the agent.
func podmanScenes(t *testing.T) []scene {
	return []scene{
		seedScene(t).by(podmanKilled, 20),
		manyScene().by(podmanKilled, 10),
		seedScene(t).by(podmanStopped, 10),
		seedScene(t).by(podmanHung("Podman hung", hang), 10),
		seedScene(t).by(podmanHung("Podman hung for longer than a call may take", longHang), 2),
		seedScene(t).by(bothKilled, 20),
		bootScene().by(bothKilled, 10),
	}
}

// edited is nil when the agent has done what that generation asks for.
func (a *agent) edited(name string, generation int64, containers ...string) error {
	p, err := a.pod(name)
	if err != nil {
		return err
	}
	if p.Generation != generation {
		return fmt.Errorf("pod %s is at generation %d", name, p.Generation)
	}
	return a.allRun(name, containers...)
}

// forgotten is nil when the agent knows the pod no more.
func (a *agent) forgotten(name string) error {
	switch p, err := a.pod(name); {
	case errors.Is(err, errNoPod):
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("pod %s is %s", name, p.Status.Phase)
	}
}

// wrong describes how what Podman has of the pod differs from one sandbox, the
// attempts given, alive, and of each the one before at most.
func (a *agent) wrong(t *testing.T, name string, attempts map[string]int) (said []string) {
	t.Helper()
	if pods := a.podmanPods(t, name); len(pods) != 1 {
		said = append(said, fmt.Sprintf("there are %d Podman pods of %s", len(pods), name))
	}
	alive := map[string]int{}
	for _, c := range a.containers(t, name) {
		switch {
		case c.live():
			alive[c.name()] = c.attempt()
		case c.attempt() != attempts[c.name()]-1:
			said = append(said, "there is "+c.String())
		}
	}
	if _, runs := alive[pod.SandboxContainerName]; !runs {
		said = append(said, "there is no infra container of "+name)
	}
	delete(alive, pod.SandboxContainerName)
	if fmt.Sprint(alive) != fmt.Sprint(attempts) {
		said = append(said, fmt.Sprintf("of pod %s run the attempts %v, want %v", name, alive, attempts))
	}
	return said
}

// remains describes what is left of a pod that is gone.
func (a *agent) remains(t *testing.T, name string) (said []string) {
	t.Helper()
	for _, c := range a.containers(t, name) {
		said = append(said, "there is "+c.String())
	}
	for _, id := range a.podmanPods(t, name) {
		said = append(said, "there is Podman pod "+id+" of "+name)
	}
	known := map[string]bool{}
	rows, err := a.sql(`SELECT uid FROM desired_pods`)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		known[fmt.Sprint(r["uid"])] = true
	}
	for _, uid := range a.volumesLeft(t) {
		if !known[uid] {
			said = append(said, "there are volumes in "+filepath.Join(a.root, "pods", uid))
		}
	}
	return said
}
