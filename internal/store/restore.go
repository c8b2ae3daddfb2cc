package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// savedState is what a backup holds.
type savedState struct {
	node         string
	sources      []sourceObject
	incarnations []incarnationObject
	pods         []podObject
	lost         []string // objects that were damaged
}

// loadBackup reads the backup; nil when there is none. Objects that are damaged
// are left out and named. Class Invalid: the file as a whole is damaged, or of
// another format.
func loadBackup(ctx context.Context, driver, path string) (*savedState, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil, nil //nolint:nilerr // what can't be looked at can't be restored from
	}
	db, rows, err := openBackup(ctx, driver, path)
	switch {
	case errors.Is(err, errNotBackup), faultOf(err) == faultCorrupt:
		return nil, &pod.Error{Class: pod.Invalid, Op: "restore from backup", Object: path, Err: fmt.Errorf(
			"the database is lost and the backup can't be used: remove the backup too to start empty; what directories and URLs want comes back by itself, what was submitted over HTTP must be submitted again (%w)", err)}
	case err != nil:
		return nil, fmt.Errorf("open backup %s: %w", path, err)
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, nil
	}
	s := &savedState{}
	for _, r := range rows {
		if !r.sound() || s.add(r) != nil {
			s.lost = append(s.lost, fmt.Sprintf("%s %s", r.Kind, r.Key))
		}
	}
	slices.SortStableFunc(s.pods, func(a, b podObject) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return s, nil
}

func (s *savedState) add(r backupRow) error {
	data := []byte(r.Data)
	switch r.Kind {
	case backupNode:
		var n nodeObject
		err := json.Unmarshal(data, &n)
		s.node = n.ID
		return err
	case backupSource:
		return appendObject(&s.sources, data)
	case backupIncarnation:
		return appendObject(&s.incarnations, data)
	case backupPod:
		return appendObject(&s.pods, data)
	}
	return fmt.Errorf("unknown kind %q", r.Kind)
}

func appendObject[T any](list *[]T, data []byte) error {
	var o T
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	*list = append(*list, o)
	return nil
}

// restoreState writes what was saved into an empty database.
func (s *Store) restoreState(t *WriteTx, saved *savedState, report OpenReport) error {
	// Resource versions must not be seen again. A count of microseconds is
	// beyond any count of changes.
	if _, err := t.Exec(`INSERT INTO meta (key, value) VALUES ('resource_version', ?)`, fmt.Sprint(t.Now.UnixMicro())); err != nil {
		return err
	}
	for _, o := range saved.sources {
		_, err := t.Exec(`INSERT INTO sources (id, kind, location, configured, synced, last_error) VALUES (?, ?, ?, ?, ?, '')`,
			o.ID, o.Kind, o.Location, o.Configured, o.Synced)
		if err != nil {
			return err
		}
	}
	for _, o := range saved.incarnations {
		err := t.named(`INSERT INTO incarnations (source, namespace, pod, incarnation, used_at) VALUES (:source, :namespace, :pod, :incarnation, :used_at)`, o)
		if err != nil {
			return err
		}
	}
	for _, o := range saved.pods {
		if err := s.restorePod(t, o, report); err != nil {
			return fmt.Errorf("restore pod %s/%s: %w", o.Namespace, o.Name, err)
		}
	}
	return nil
}

func (s *Store) restorePod(t *WriteTx, o podObject, report OpenReport) error {
	row, containers := o.rows(s.normalizeImage)
	// The source's own object may have been lost.
	if _, err := t.Exec(`INSERT INTO sources (id, kind, location, configured, synced, last_error) VALUES (?, ?, '', 1, 0, '')
		ON CONFLICT (id) DO NOTHING`, row.Source, kindOf(row.Source)); err != nil {
		return err
	}
	var err error
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
	why := "the database was missing"
	if report.Corrupt != "" {
		why = "the database was damaged and is kept as " + report.Corrupt
	}
	return t.addEvent(row.key(), row.UID, pod.Event{
		Type: corev1.EventTypeWarning, Reason: "DatabaseRestored", Message: "desired state was restored from the backup: " + why,
	})
}

// kindOf reads the kind off a source's ID.
func kindOf(id string) pod.SourceKind {
	for _, k := range []pod.SourceKind{pod.SourceDirectory, pod.SourceURL} {
		if len(id) > len(k) && id[:len(k)+1] == string(k)+":" {
			return k
		}
	}
	return pod.SourceHTTP
}
