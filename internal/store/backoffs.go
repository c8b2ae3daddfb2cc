package store

import (
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

type backoffRow struct {
	PodUID      types.UID       `db:"pod_uid"`
	Namespace   string          `db:"namespace"`
	Pod         string          `db:"pod"`
	Container   string          `db:"container"`
	Kind        pod.BackoffKind `db:"kind"`
	Failures    int             `db:"failures"`
	UntilAt     stamp           `db:"until_at"`
	LastAt      stamp           `db:"last_at"`
	Reason      string          `db:"reason"`
	Message     string          `db:"message"`
	Unavailable bool            `db:"unavailable"`
}

const selectBackoffs = `SELECT pod_uid, namespace, pod, container, kind, failures, until_at, last_at, reason, message, unavailable FROM backoffs `

func (t *ReadTx) backoffsOf(uid types.UID) ([]backoffRow, error) {
	var rows []backoffRow
	err := t.Select(&rows, selectBackoffs+`WHERE pod_uid = ? ORDER BY container, kind`, uid)
	return rows, err
}

func (r backoffRow) backoff() pod.Backoff {
	return pod.Backoff{
		Container: r.Container, Kind: r.Kind, Failures: r.Failures,
		Until: r.UntilAt.Time(), LastAt: r.LastAt.Time(), Reason: r.Reason, Message: r.Message, Unavailable: r.Unavailable,
	}
}

// putBackoff stores a back-off, or clears it when it has no failures.
func (t *WriteTx) putBackoff(key pod.Key, uid types.UID, b pod.Backoff) error {
	if b.Failures == 0 {
		_, err := t.Exec(`DELETE FROM backoffs WHERE pod_uid = ? AND container = ? AND kind = ?`, uid, b.Container, b.Kind)
		return err
	}
	return t.named(`INSERT INTO backoffs (pod_uid, namespace, pod, container, kind, failures, until_at, last_at, reason, message, unavailable)
		VALUES (:pod_uid, :namespace, :pod, :container, :kind, :failures, :until_at, :last_at, :reason, :message, :unavailable)
		ON CONFLICT (pod_uid, container, kind) DO UPDATE SET failures = excluded.failures, until_at = excluded.until_at,
		last_at = excluded.last_at, reason = excluded.reason, message = excluded.message, unavailable = excluded.unavailable`,
		backoffRow{
			PodUID: uid, Namespace: key.Namespace, Pod: key.Name, Container: b.Container, Kind: b.Kind, Failures: b.Failures,
			UntilAt: stampOf(b.Until), LastAt: stampOf(b.LastAt), Reason: b.Reason, Message: clip(b.Message), Unavailable: b.Unavailable,
		})
}

// endOutage drops the back-offs that there are because the runtime gave no
// answer, and has their pods looked at.
func (t *WriteTx) endOutage() error {
	if err := t.touchAll(`SELECT DISTINCT pod_uid FROM backoffs WHERE unavailable`); err != nil {
		return err
	}
	_, err := t.Exec(`DELETE FROM backoffs WHERE unavailable`)
	return err
}
