package store

import (
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// newUID is the UID of a new incarnation. That of a static pod follows from its
// place, so that a lost database gives it the same one again.
func (s *Store) newUID(src pod.Source, key pod.Key, incarnation int64) types.UID {
	if !src.Kind.Static() {
		return types.UID(uuid.NewString())
	}
	name := fmt.Sprintf("%s\x00%s\x00%d", src.ID, key, incarnation)
	return types.UID(uuid.NewSHA1(s.nodeUUID, []byte(name)).String())
}

// adopt lets a pod that the store has never seen take over what the runtime has
// of it, which happens when database and backup were lost. Same name and same
// hash: same UID, same revisions, nothing restarts but what was made for an edit
// that was lost. Same UID by its place but another hash: it was edited meanwhile,
// so its revisions go beyond what is there. So it is for a pod that is submitted
// over HTTP under the name of one that was.
func (t *WriteTx) adopt(row *podRow, static bool, containers []containerRow) error {
	var found struct {
		UID      types.UID `db:"pod_uid"`
		Revision int64     `db:"revision"`
		Hash     string    `db:"manifest_hash"`
	}
	ok, err := t.find(&found, `SELECT pod_uid, revision, manifest_hash FROM observed_sandboxes o
		WHERE namespace = ? AND pod = ? AND (manifest_hash = ? OR pod_uid = ? OR ? AND EXISTS (SELECT 1 FROM unwanted u WHERE u.pod_uid = o.pod_uid AND u.kept))
		AND `+notGone+` AND NOT EXISTS (SELECT 1 FROM desired_pods d WHERE d.uid = o.pod_uid)
		ORDER BY manifest_hash = ? DESC, attempt DESC, created_at DESC LIMIT 1`,
		row.Namespace, row.Name, row.Hash, row.UID, !static, row.Hash)
	if err != nil || !ok {
		return err
	}
	row.UID = found.UID
	row.Revision = found.Revision
	if found.Hash != row.Hash {
		row.Revision = revisionAfter(found.Revision, row.Hash)
	}
	for i := range containers {
		c := &containers[i]
		c.PodUID = found.UID
		var latest struct {
			Revision int64 `db:"revision"`
			Attempt  int   `db:"attempt"`
		}
		ok, err := t.find(&latest, `SELECT revision, attempt FROM observed_containers
			WHERE pod_uid = ? AND container = ? ORDER BY attempt DESC LIMIT 1`, c.PodUID, c.Container)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		c.Revision, c.Attempt = latest.Revision, latest.Attempt
		if found.Hash != row.Hash || !broughtBy(latest.Revision, row.Hash) {
			c.Revision = revisionAfter(latest.Revision, row.Hash)
		}
	}
	return nil
}
