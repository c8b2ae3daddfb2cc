package store

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// The objects of the backup. Fields are only ever added.

type nodeObject struct {
	ID string `json:"id"`
}

type sourceObject struct {
	ID         string         `json:"id"`
	Kind       pod.SourceKind `json:"kind"`
	Location   string         `json:"location,omitempty"`
	Configured bool           `json:"configured"`
	Synced     bool           `json:"synced"`
}

type incarnationObject struct {
	Source      string `json:"source" db:"source"`
	Namespace   string `json:"namespace" db:"namespace"`
	Pod         string `json:"pod" db:"pod"`
	Incarnation int64  `json:"incarnation" db:"incarnation"`
	UsedAt      stamp  `json:"usedAt" db:"used_at"`
}

func incarnationKey(source string, key pod.Key) string { return source + " " + key.String() }

// podObject leaves out what changes while a pod merely runs. Its state and, once
// it has ended, its status are kept: nothing would observe those again.
type podObject struct {
	UID         types.UID         `json:"uid"`
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Source      string            `json:"source"`
	Unit        string            `json:"unit,omitempty"`
	Place       string            `json:"place,omitempty"`
	Incarnation int64             `json:"incarnation"`
	Generation  int64             `json:"generation"`
	Revision    int64             `json:"revision"`
	Manifest    string            `json:"manifest"`
	Hash        string            `json:"hash"`
	CreatedAt   stamp             `json:"createdAt"`
	State       pod.State         `json:"state,omitempty"`
	StateAt     stamp             `json:"stateAt"`
	Status      string            `json:"status,omitempty"`
	Deletion    *deletionObject   `json:"deletion,omitempty"`
	Containers  []containerObject `json:"containers"`
}

type deletionObject struct {
	RequestedAt stamp         `json:"requestedAt"`
	Grace       time.Duration `json:"graceNS"`
	Cause       pod.Cause     `json:"cause"`
	Detail      string        `json:"detail"`
}

type containerObject struct {
	Name     string            `json:"name"`
	Kind     pod.ContainerKind `json:"kind"`
	Ordinal  int               `json:"ordinal"`
	Image    string            `json:"image"`
	Revision int64             `json:"revision"`
	Attempt  int               `json:"attempt"`
	Wanted   bool              `json:"wanted"`
}

func podObjectOf(r podRow, containers []containerRow) podObject {
	o := podObject{
		UID: r.UID, Namespace: r.Namespace, Name: r.Name, Source: r.Source, Unit: r.Unit, Place: r.Place,
		Incarnation: r.Incarnation, Generation: r.Generation, Revision: r.Revision,
		Manifest: r.Manifest, Hash: r.Hash, CreatedAt: r.CreatedAt, State: r.State, StateAt: r.StateAt,
	}
	if ended(r.State) {
		o.Status = r.Status
	}
	if r.deleting() {
		o.Deletion = &deletionObject{RequestedAt: r.DeletionRequestedAt, Grace: time.Duration(r.DeletionGraceNS), Cause: r.DeletionCause, Detail: r.DeletionDetail}
	}
	for _, c := range containers {
		o.Containers = append(o.Containers, containerObject{
			Name: c.Container, Kind: c.Kind, Ordinal: c.Ordinal, Image: c.Image, Revision: c.Revision, Attempt: c.Attempt, Wanted: c.Wanted,
		})
	}
	return o
}

// rows is the inverse of podObjectOf.
func (o podObject) rows(normalize func(string) string) (podRow, []containerRow) {
	r := podRow{
		UID: o.UID, Namespace: o.Namespace, Name: o.Name, Source: o.Source, Unit: o.Unit, Place: o.Place,
		Incarnation: o.Incarnation, Generation: o.Generation, Revision: o.Revision,
		Manifest: o.Manifest, Hash: o.Hash, CreatedAt: o.CreatedAt, State: o.State, StateAt: o.StateAt, Status: "{}",
	}
	if o.Status != "" {
		r.Status = o.Status
	}
	if d := o.Deletion; d != nil {
		r.DeletionRequestedAt, r.DeletionGraceNS = d.RequestedAt, int64(d.Grace)
		r.DeletionDeadlineAt = stampOf(d.RequestedAt.Time().Add(d.Grace))
		r.DeletionCause, r.DeletionDetail = d.Cause, d.Detail
	}
	var containers []containerRow
	for _, c := range o.Containers {
		containers = append(containers, containerRow{
			PodUID: o.UID, Namespace: o.Namespace, Pod: o.Name, Container: c.Name, Kind: c.Kind, Ordinal: c.Ordinal,
			Image: c.Image, ImageRef: normalize(c.Image), Revision: c.Revision, Attempt: c.Attempt, Wanted: c.Wanted,
		})
	}
	return r, containers
}

// backupObject is one object as the backup should have it.
func (t *ReadTx) backupObject(k backupKey) (data string, found bool, err error) {
	var where string
	switch k.Kind {
	case backupPod:
		where = `WHERE d.uid = ?`
	case backupSource:
		where = `WHERE id = ?`
	case backupIncarnation:
		where = `WHERE source || ' ' || namespace || '/' || pod = ?`
	default:
		return "", false, fmt.Errorf("backup of a %s", k.Kind)
	}
	all := map[backupKey]string{}
	err = t.collect(all, k.Kind, where, k.Key)
	data, found = all[k]
	return data, found, err
}

// backupObjects is everything that the backup should have.
func (t *ReadTx) backupObjects() (map[backupKey]string, error) {
	all := map[backupKey]string{}
	var node string
	if err := t.Get(&node, `SELECT value FROM meta WHERE key = 'node_id'`); err != nil {
		return nil, err
	}
	all[backupKey{backupNode, "node"}] = marshal(nodeObject{ID: node})
	for _, kind := range []backupKind{backupSource, backupIncarnation, backupPod} {
		if err := t.collect(all, kind, ""); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t *ReadTx) collect(into map[backupKey]string, kind backupKind, where string, args ...any) error {
	switch kind {
	case backupSource:
		var rows []sourceRow
		if err := t.Select(&rows, selectSources+where, args...); err != nil {
			return err
		}
		for _, r := range rows {
			into[backupKey{kind, r.ID}] = marshal(sourceObject{ID: r.ID, Kind: r.Kind, Location: r.Location, Configured: r.Configured, Synced: r.Synced})
		}
	case backupIncarnation:
		var rows []incarnationObject
		if err := t.Select(&rows, `SELECT source, namespace, pod, incarnation, used_at FROM incarnations `+where, args...); err != nil {
			return err
		}
		for _, r := range rows {
			into[backupKey{kind, incarnationKey(r.Source, pod.Key{Namespace: r.Namespace, Name: r.Pod})}] = marshal(r)
		}
	case backupPod:
		var rows []podRow
		if err := t.Select(&rows, selectPods+where, args...); err != nil {
			return err
		}
		for _, r := range rows {
			containers, err := t.containersOf(r.UID)
			if err != nil {
				return err
			}
			into[backupKey{kind, string(r.UID)}] = marshal(podObjectOf(r, containers))
		}
	}
	return nil
}
