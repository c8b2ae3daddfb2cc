package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// podCache keeps decoded manifests: decoding and defaulting one costs more than
// all queries of a snapshot.
type podCache struct {
	mu   sync.Mutex
	pods map[types.UID]cachedPod
}

type cachedPod struct {
	generation int64
	pod        *corev1.Pod
}

func (c *podCache) get(uid types.UID, generation int64) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.pods[uid]; ok && e.generation == generation {
		return e.pod
	}
	return nil
}

func (c *podCache) put(uid types.UID, generation int64, p *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[uid] = cachedPod{generation, p}
}

func (c *podCache) drop(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, uid)
}

// defaulted is the row's pod with the metadata that the store owns. It fails
// when this binary can't read the manifest.
func (s *Store) defaulted(r podRow) (*corev1.Pod, error) {
	base := s.pods.get(r.UID, r.Generation)
	if base == nil {
		var err error
		if base, err = s.restore([]byte(r.Manifest)); err != nil {
			return nil, err
		}
		s.pods.put(r.UID, r.Generation, base)
	}
	return withMetadata(base, r), nil
}

// withMetadata is the pod with the metadata that the store owns. What it does
// not set is shared with the original, and never changed.
func withMetadata(base *corev1.Pod, r podRow) *corev1.Pod {
	p := *base
	p.UID = r.UID
	p.Generation = r.Generation
	p.ResourceVersion = fmt.Sprint(r.ResourceVersion)
	p.CreationTimestamp = metav1.NewTime(r.CreatedAt.Time())
	if r.deleting() {
		at := metav1.NewTime(r.DeletionDeadlineAt.Time())
		seconds := int64(time.Duration(r.DeletionGraceNS) / time.Second)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &seconds
	}
	return &p
}

// desired puts a pod together from its rows.
func (r podRow) desired(p *corev1.Pod, containers []containerRow, backoffs []backoffRow) (pod.Desired, error) {
	d := pod.Desired{
		Key: r.key(), UID: r.UID, Source: pod.Source{ID: r.Source, Kind: r.SourceKind, Location: r.SourceLocation},
		Unit: r.Unit, Place: r.Place, Incarnation: r.Incarnation, Generation: r.Generation, Revision: r.Revision,
		Pod: p, Hash: r.Hash, CreatedAt: r.CreatedAt.Time(), State: r.State, StateSince: r.StateAt.Time(),
	}
	if r.deleting() {
		d.Deletion = &pod.Deletion{
			RequestedAt: r.DeletionRequestedAt.Time(), Grace: time.Duration(r.DeletionGraceNS), Cause: r.DeletionCause, Detail: r.DeletionDetail,
		}
	}
	if err := json.Unmarshal([]byte(r.Status), &d.Status); err != nil {
		return pod.Desired{}, fmt.Errorf("status of pod %s: %w", r.key(), err)
	}
	for _, c := range containers {
		if c.Wanted {
			d.Containers = append(d.Containers, pod.DesiredContainer{
				Name: c.Container, Kind: c.Kind, Ordinal: c.Ordinal, Image: c.Image, Revision: c.Revision, Attempt: c.Attempt,
			})
		}
	}
	for _, b := range backoffs {
		d.Backoffs = append(d.Backoffs, b.backoff())
	}
	return d, nil
}

// Load is a snapshot of one pod. Class NotFound: it is not desired (any more).
func (s *Store) Load(ctx context.Context, uid types.UID) (pod.Snapshot, error) {
	const op = "load pod"
	var snap pod.Snapshot
	err := s.read(ctx, func(t *ReadTx) error {
		var row podRow
		found, err := t.find(&row, selectPods+`WHERE d.uid = ?`, uid)
		if err != nil {
			return err
		}
		if !found {
			return notFound(op, uid)
		}
		containers, err := t.containersOf(uid)
		if err != nil {
			return err
		}
		backoffs, err := t.backoffsOf(uid)
		if err != nil {
			return err
		}
		p, unreadable := s.shown(row)
		if snap.Desired, err = row.desired(p, containers, backoffs); err != nil {
			return err
		}
		if unreadable != nil {
			snap.Desired.Unreadable = unreadable.Error()
		}
		if snap.Observed, err = t.observation(uid); err != nil {
			return err
		}
		if snap.Observed.Images, err = t.imagesFor(containers); err != nil {
			return err
		}
		if !row.deleting() {
			_, err = t.find(&snap.Predecessor, `SELECT uid FROM desired_pods WHERE namespace = ? AND name = ? AND deletion_requested_at IS NOT NULL LIMIT 1`, row.Namespace, row.Name)
		}
		return err
	})
	if err != nil {
		return pod.Snapshot{}, explain(op, s.path, err)
	}
	return snap, nil
}
