package store

import (
	"slices"
	"testing"

	"podstead.io/podstead/internal/pod"
)

// all are the revisions of the pod and of its containers.
func allRevisions(d pod.Desired) []int64 {
	list := []int64{d.Revision}
	for _, c := range d.Containers {
		list = append(list, c.Revision)
	}
	return list
}

// after is the pod as a store has it that was told of these manifests, one after
// the other, and of nothing in Podman.
func after(t *testing.T, subs ...pod.Submission) pod.Desired {
	t.Helper()
	s, _ := newStore(t)
	for _, sub := range subs {
		mustSync(t, s, dirA, set(sub))
	}
	return load(t, s, "web").Desired
}

// A power cut loses what was read from a file, but not the containers that were
// made for it. They pass for those of what is read next if it is the same, and
// only then.
func TestRevisionsTellWhatWasLostFromWhatIsWanted(t *testing.T) {
	one, two, three := submission("web"), submission("web", withImage("main", "nginx:2")), submission("web", withImage("main", "nginx:3"))
	for _, test := range []struct {
		name      string
		lost, now []pod.Submission
		same      bool
	}{
		{"the pod was lost", set(one).Pods, set(one).Pods, true},
		{"the pod was lost, and is another", set(one).Pods, set(two).Pods, false},
		{"an edit was lost", set(one, two).Pods, set(one, two).Pods, true},
		{"an edit was lost, and is another", set(one, two).Pods, set(one, three).Pods, false},
		{"an edit is undone", set(one).Pods, set(one, two, one).Pods, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			lost, now := after(t, test.lost...), after(t, test.now...)
			if lost.UID != now.UID {
				t.Fatal("two UIDs of one pod")
			}
			main := len(allRevisions(now)) - 1
			if same := allRevisions(lost)[main] == allRevisions(now)[main]; same != test.same {
				t.Errorf("what was made for %v is taken for %v: %t", allRevisions(lost), allRevisions(now), same)
			}
		})
	}
}

// The sandbox is older than the edit that was lost and is undone.
func TestAdoptionTakesNoContainerOfALostEdit(t *testing.T) {
	one := submission("web", withImage("side", "nginx"))
	first := after(t, one)
	lost := after(t, one, submission("web", withImage("side", "nginx:2")))
	s, c := newStore(t)
	mustObserve(t, s, pod.Facts{
		Complete: true, Sandboxes: []pod.Sandbox{sandboxOf(first, c.Now())},
		Containers: []pod.Container{containerOf(lost, "main", 0, c.Now()), containerOf(lost, "side", 1, c.Now())},
	})
	mustSync(t, s, dirA, set(one))
	d := load(t, s, "web").Desired
	got, was := allRevisions(d), allRevisions(lost)
	if !slices.Equal(got[:2], was[:2]) || got[2] == was[2] {
		t.Errorf("adopted %v at %v", was, got)
	}
}
