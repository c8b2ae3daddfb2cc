package store

import (
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// difference says what an edit replaces. What has ended for good runs again only
// at a new revision, so a pod-wide change gives one to every container too.
type difference struct {
	podWide    bool // and with it every container
	containers map[string]pod.Change
	// again says that the pod had ended and is to run again: its init containers
	// first, though they failed for good.
	again bool
}

func (d difference) replaces(container string) bool {
	return d.podWide || d.containers[container] != ""
}

// diff compares the stored generation with the new one, both defaulted by this
// binary.
func (s *Store) diff(row podRow, updated *corev1.Pod) difference {
	old, err := s.restore([]byte(row.Manifest))
	if err != nil {
		return difference{podWide: true} // it can't be read any more
	}
	var d difference
	d.podWide, d.containers = pod.Diff(old, updated)
	return d
}

// reviseContainers are the rows after an edit: those of the new manifest with
// the attempts they had and the revisions that follow from the difference, then
// those that are not in the manifest any more.
func reviseContainers(stored, manifest []containerRow, d difference, hash string) []containerRow {
	before := make(map[string]containerRow, len(stored))
	for _, c := range stored {
		before[c.Container] = c
	}
	rows := make([]containerRow, 0, len(stored)+len(manifest))
	for _, c := range manifest {
		if was, ok := before[c.Container]; ok {
			c.Revision, c.Attempt = was.Revision, was.Attempt
			if d.replaces(c.Container) || d.again && c.Kind == pod.KindInit {
				c.Revision = revisionAfter(c.Revision, hash)
			}
			delete(before, c.Container)
		}
		rows = append(rows, c)
	}
	for _, c := range stored {
		if _, gone := before[c.Container]; gone {
			c.Wanted = false
			rows = append(rows, c)
		}
	}
	return rows
}
