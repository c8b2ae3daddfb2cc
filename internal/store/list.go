package store

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// Pods lists the desired pods of a namespace (empty: all), those being deleted
// included, by namespace, name and age.
func (s *Store) Pods(ctx context.Context, namespace string) ([]pod.Desired, error) {
	var list []pod.Desired
	err := s.Read(ctx, func(t *ReadTx) error {
		var err error
		list, err = s.list(t, `WHERE ? IN ('', d.namespace) ORDER BY d.namespace, d.name, d.created_at, d.rowid`, namespace)
		return err
	})
	return list, err
}

// Pod is the wanted pod of that name, or else the youngest of those being
// deleted. Class NotFound: there is neither.
func (s *Store) Pod(ctx context.Context, key pod.Key) (pod.Desired, error) {
	var d pod.Desired
	err := s.Read(ctx, func(t *ReadTx) error {
		list, err := s.list(t, `WHERE d.namespace = ? AND d.name = ?
			ORDER BY d.deletion_requested_at IS NULL DESC, d.rowid DESC LIMIT 1`, key.Namespace, key.Name)
		if err == nil && len(list) == 0 {
			return notFound("read pod", key)
		}
		if err == nil {
			d = list[0]
		}
		return err
	})
	return d, err
}

func (s *Store) list(t *ReadTx, where string, args ...any) ([]pod.Desired, error) {
	var rows []podRow
	if err := t.Select(&rows, selectPods+where, args...); err != nil || len(rows) == 0 {
		return nil, err
	}
	containers, backoffs := map[types.UID][]containerRow{}, map[types.UID][]backoffRow{}
	if len(rows) == 1 {
		uid := rows[0].UID
		c, err := t.containersOf(uid)
		if err != nil {
			return nil, err
		}
		b, err := t.backoffsOf(uid)
		if err != nil {
			return nil, err
		}
		containers[uid], backoffs[uid] = c, b
	} else if err := t.allParts(containers, backoffs); err != nil {
		return nil, err
	}
	list := make([]pod.Desired, 0, len(rows))
	for _, r := range rows {
		p, unreadable := s.shown(r)
		d, err := r.desired(p, containers[r.UID], backoffs[r.UID])
		if err != nil {
			return nil, err
		}
		if unreadable != nil {
			d.Unreadable = unreadable.Error()
		}
		list = append(list, d)
	}
	return list, nil
}

// shown is the row's pod. One that this binary can't read any more is shown as
// far as it goes, without defaults, with the reason.
func (s *Store) shown(r podRow) (*corev1.Pod, error) {
	known, unreadable := s.defaulted(r)
	if unreadable == nil {
		return known, nil
	}
	var p corev1.Pod
	if err := json.Unmarshal([]byte(r.Manifest), &p); err != nil {
		p = corev1.Pod{}
	}
	p.Namespace, p.Name = r.Namespace, r.Name
	return withMetadata(&p, r), unreadable
}

// allParts reads the containers and back-offs of all pods in two queries.
func (t *ReadTx) allParts(containers map[types.UID][]containerRow, backoffs map[types.UID][]backoffRow) error {
	var c []containerRow
	if err := t.Select(&c, selectContainers+`ORDER BY pod_uid, ordinal, container`); err != nil {
		return err
	}
	for _, r := range c {
		containers[r.PodUID] = append(containers[r.PodUID], r)
	}
	var b []backoffRow
	if err := t.Select(&b, selectBackoffs+`ORDER BY pod_uid, container, kind`); err != nil {
		return err
	}
	for _, r := range b {
		backoffs[r.PodUID] = append(backoffs[r.PodUID], r)
	}
	return nil
}
