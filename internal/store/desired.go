package store

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// podRow is a row of desired_pods with its source's kind and location.
type podRow struct {
	UID                 types.UID `db:"uid"`
	Namespace           string    `db:"namespace"`
	Name                string    `db:"name"`
	Source              string    `db:"source"`
	Unit                string    `db:"unit"`
	Place               string    `db:"place"`
	Incarnation         int64     `db:"incarnation"`
	Generation          int64     `db:"generation"`
	Revision            int64     `db:"revision"`
	Manifest            string    `db:"manifest"`
	Hash                string    `db:"manifest_hash"`
	CreatedAt           stamp     `db:"created_at"`
	DeletionRequestedAt stamp     `db:"deletion_requested_at"`
	DeletionGraceNS     int64     `db:"deletion_grace_ns"`
	DeletionDeadlineAt  stamp     `db:"deletion_deadline_at"`
	DeletionCause       pod.Cause `db:"deletion_cause"`
	DeletionDetail      string    `db:"deletion_detail"`
	State               pod.State `db:"state"`
	StateAt             stamp     `db:"state_at"`
	Status              string    `db:"status"`
	ResourceVersion     int64     `db:"resource_version"`

	SourceKind     pod.SourceKind `db:"source_kind"`
	SourceLocation string         `db:"source_location"`
}

const selectPods = `SELECT d.uid, d.namespace, d.name, d.source, d.unit, d.place, d.incarnation, d.generation, d.revision,
	d.manifest, d.manifest_hash, d.created_at, d.deletion_requested_at, d.deletion_grace_ns, d.deletion_deadline_at,
	d.deletion_cause, d.deletion_detail, d.state, d.state_at, d.status, d.resource_version,
	s.kind AS source_kind, s.location AS source_location
	FROM desired_pods d JOIN sources s ON s.id = d.source `

const insertPod = `INSERT INTO desired_pods (uid, namespace, name, source, unit, place, incarnation, generation, revision,
	manifest, manifest_hash, created_at, deletion_requested_at, deletion_grace_ns, deletion_deadline_at,
	deletion_cause, deletion_detail, state, state_at, status, resource_version)
	VALUES (:uid, :namespace, :name, :source, :unit, :place, :incarnation, :generation, :revision,
	:manifest, :manifest_hash, :created_at, :deletion_requested_at, :deletion_grace_ns, :deletion_deadline_at,
	:deletion_cause, :deletion_detail, :state, :state_at, :status, :resource_version)`

func (r podRow) key() pod.Key { return pod.Key{Namespace: r.Namespace, Name: r.Name} }

func (r podRow) deleting() bool { return r.DeletionRequestedAt != "" }

// owner names the source, and the place within it, for people.
func (r podRow) owner() string {
	if r.Place == "" {
		return r.Source
	}
	return r.Source + " (" + r.Place + ")"
}

// containerRow is a row of desired_containers.
type containerRow struct {
	PodUID    types.UID         `db:"pod_uid"`
	Namespace string            `db:"namespace"`
	Pod       string            `db:"pod"`
	Container string            `db:"container"`
	Kind      pod.ContainerKind `db:"kind"`
	Ordinal   int               `db:"ordinal"`
	Image     string            `db:"image"`
	ImageRef  string            `db:"image_ref"`
	Revision  int64             `db:"revision"`
	Attempt   int               `db:"attempt"`
	Wanted    bool              `db:"wanted"`
}

const selectContainers = `SELECT pod_uid, namespace, pod, container, kind, ordinal, image, image_ref, revision, attempt, wanted
	FROM desired_containers `

const putContainer = `INSERT INTO desired_containers (pod_uid, namespace, pod, container, kind, ordinal, image, image_ref, revision, attempt, wanted)
	VALUES (:pod_uid, :namespace, :pod, :container, :kind, :ordinal, :image, :image_ref, :revision, :attempt, :wanted)
	ON CONFLICT (pod_uid, container) DO UPDATE SET kind = excluded.kind, ordinal = excluded.ordinal, image = excluded.image,
	image_ref = excluded.image_ref, revision = excluded.revision, attempt = excluded.attempt, wanted = excluded.wanted`

func (t *ReadTx) containersOf(uid types.UID) ([]containerRow, error) {
	var rows []containerRow
	err := t.Select(&rows, selectContainers+`WHERE pod_uid = ? ORDER BY ordinal, container`, uid)
	return rows, err
}

// manifestContainers are the rows of the pod's containers, init containers
// first, at their first revision and before any attempt.
func (s *Store) manifestContainers(uid types.UID, sub pod.Submission) []containerRow {
	p := sub.Pod
	rows := make([]containerRow, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	add := func(kind pod.ContainerKind, list []corev1.Container) {
		for i := range list {
			rows = append(rows, containerRow{
				PodUID: uid, Namespace: p.Namespace, Pod: p.Name, Container: list[i].Name, Kind: kind, Ordinal: len(rows),
				Image: list[i].Image, ImageRef: s.normalizeImage(list[i].Image), Revision: revisionAfter(0, sub.Hash), Attempt: -1, Wanted: true,
			})
		}
	}
	add(pod.KindInit, p.Spec.InitContainers)
	add(pod.KindContainer, p.Spec.Containers)
	return rows
}

// createPod accepts a pod that no wanted row has the name of.
func (s *Store) createPod(t *WriteTx, src pod.Source, sub pod.Submission) error {
	key := sub.Key()
	var incarnation int64
	t.wrote = true
	err := t.Get(&incarnation, `INSERT INTO incarnations (source, namespace, pod, incarnation, used_at) VALUES (?, ?, ?, 1, ?)
		ON CONFLICT (source, namespace, pod) DO UPDATE SET incarnation = incarnation + 1, used_at = excluded.used_at
		RETURNING incarnation`, src.ID, key.Namespace, key.Name, t.now())
	if err != nil {
		return err
	}
	t.save(backupIncarnation, incarnationKey(src.ID, key))
	row := podRow{
		UID: s.newUID(src, key, incarnation), Namespace: key.Namespace, Name: key.Name, Source: src.ID,
		Unit: sub.Unit, Place: sub.Place, Incarnation: incarnation, Generation: 1, Revision: revisionAfter(0, sub.Hash),
		Manifest: string(sub.Manifest), Hash: sub.Hash, CreatedAt: t.now(), StateAt: t.now(), Status: "{}",
	}
	containers := s.manifestContainers(row.UID, sub)
	if err := t.adopt(&row, src.Kind.Static(), containers); err != nil {
		return fmt.Errorf("adopt %s: %w", key, err)
	}
	if row.ResourceVersion, err = t.nextVersion(); err != nil {
		return err
	}
	if err := t.named(insertPod, row); err != nil {
		return err
	}
	for _, c := range containers {
		if err := t.named(putContainer, c); err != nil {
			return err
		}
	}
	t.touch(row.UID)
	t.save(backupPod, string(row.UID))
	// Whatever else has the name is in the way.
	if err := t.touchAll(`SELECT DISTINCT pod_uid FROM observed_sandboxes WHERE namespace = ? AND pod = ?`, key.Namespace, key.Name); err != nil {
		return err
	}
	return t.warn(row, sub.Warnings)
}

// editPod takes an edit: the UID stays, the generation goes up, and revisions
// go up where pod.Diff finds that something has to be replaced. Back-offs of
// what changed are dropped, since the edit may have mended it.
func (s *Store) editPod(t *WriteTx, row podRow, sub pod.Submission) error {
	stored, err := t.containersOf(row.UID)
	if err != nil {
		return err
	}
	d := s.diff(row, sub.Pod)
	d.again = ended(row.State) && len(d.containers) > 0
	row.Unit, row.Place, row.Manifest, row.Hash = sub.Unit, sub.Place, string(sub.Manifest), sub.Hash
	row.Generation++
	if d.podWide {
		row.Revision = revisionAfter(row.Revision, row.Hash)
		if _, err := t.Exec(`DELETE FROM backoffs WHERE pod_uid = ? AND container = ''`, row.UID); err != nil {
			return err
		}
	}
	if row.ResourceVersion, err = t.nextVersion(); err != nil {
		return err
	}
	err = t.named(`UPDATE desired_pods SET unit = :unit, place = :place, manifest = :manifest, manifest_hash = :manifest_hash,
		generation = :generation, revision = :revision, resource_version = :resource_version WHERE uid = :uid`, row)
	if err != nil {
		return err
	}
	for _, c := range reviseContainers(stored, s.manifestContainers(row.UID, sub), d, sub.Hash) {
		if err := t.named(putContainer, c); err != nil {
			return err
		}
		if d.replaces(c.Container) {
			if _, err := t.Exec(`DELETE FROM backoffs WHERE pod_uid = ? AND container = ?`, row.UID, c.Container); err != nil {
				return err
			}
		}
	}
	// Vanished attempts matter only to containers that are still wanted.
	_, err = t.Exec(`DELETE FROM observed_containers WHERE pod_uid = ? AND state = ? AND container IN
		(SELECT container FROM desired_containers WHERE pod_uid = ? AND NOT wanted)`, row.UID, pod.RunGone, row.UID)
	if err != nil {
		return err
	}
	t.touch(row.UID)
	t.save(backupPod, string(row.UID))
	return t.warn(row, sub.Warnings)
}

// movePod notes that an unchanged pod is found elsewhere in its source.
func (t *WriteTx) movePod(row podRow, sub pod.Submission) error {
	version, err := t.nextVersion()
	if err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE desired_pods SET unit = ?, place = ?, resource_version = ? WHERE uid = ?`, sub.Unit, sub.Place, version, row.UID)
	t.save(backupPod, string(row.UID))
	return err
}

// warn records the fields of a manifest that have no effect.
func (t *WriteTx) warn(row podRow, warnings []string) error {
	for _, w := range warnings {
		e := pod.Event{Type: corev1.EventTypeWarning, Reason: "FieldIgnored", Message: w}
		if err := t.addEvent(row.key(), row.UID, e); err != nil {
			return err
		}
	}
	return nil
}

// deletePod records that the pod is no longer wanted, and lets the next one in
// line have its name. grace nil: the pod's own.
func (s *Store) deletePod(t *WriteTx, row podRow, grace *time.Duration, cause pod.Cause, detail string) error {
	if grace == nil {
		own := s.ownGrace(row)
		grace = &own
	}
	if err := t.setDeletion(row.UID, t.Now, *grace, cause, detail); err != nil {
		return err
	}
	return s.succeed(t, row.key())
}

func (t *WriteTx) setDeletion(uid types.UID, requested time.Time, grace time.Duration, cause pod.Cause, detail string) error {
	version, err := t.nextVersion()
	if err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE desired_pods SET deletion_requested_at = ?, deletion_grace_ns = ?, deletion_deadline_at = ?,
		deletion_cause = ?, deletion_detail = ?, resource_version = ? WHERE uid = ?`,
		stampOf(requested), int64(grace), stampOf(requested.Add(grace)), cause, clip(detail), version, uid)
	t.touch(uid)
	t.save(backupPod, string(uid))
	return err
}

// ownGrace is the pod's grace period, Kubernetes' default when its manifest
// can't be read any more.
func (s *Store) ownGrace(row podRow) time.Duration {
	p, err := s.restore([]byte(row.Manifest))
	if err != nil {
		p = nil
	}
	return pod.GracePeriod(p)
}

// forgetPod deletes the pod and everything observed of it.
func (s *Store) forgetPod(t *WriteTx, row podRow) error {
	if err := s.buryPod(t, row.UID); err != nil {
		return err
	}
	for _, q := range []string{
		`DELETE FROM observed_sandboxes WHERE pod_uid = ?`,
		`DELETE FROM observed_containers WHERE pod_uid = ?`,
		`DELETE FROM intents WHERE pod_uid = ?`,
		`DELETE FROM desired_pods WHERE uid = ?`, // containers and back-offs go with it
	} {
		if _, err := t.Exec(q, row.UID); err != nil {
			return err
		}
	}
	if _, err := t.nextVersion(); err != nil {
		return err
	}
	t.save(backupPod, string(row.UID))
	t.onCommit(func() { s.pods.drop(row.UID) })
	if err := s.succeed(t, row.key()); err != nil {
		return err
	}
	// A later incarnation may have waited for this one to be gone.
	if err := t.touchAll(`SELECT uid FROM desired_pods WHERE namespace = ? AND name = ?`, row.Namespace, row.Name); err != nil {
		return err
	}
	return t.dropRetired(row.Source)
}

// marshal is json.Marshal of the store's own types, which can't fail.
func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", v, err))
	}
	return string(b)
}
