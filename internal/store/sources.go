package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"podstead.io/podstead/internal/pod"
)

type sourceRow struct {
	ID          string         `db:"id"`
	Kind        pod.SourceKind `db:"kind"`
	Location    string         `db:"location"`
	Configured  bool           `db:"configured"`
	Synced      bool           `db:"synced"`
	LastSyncAt  stamp          `db:"last_sync_at"`
	LastError   string         `db:"last_error"`
	LastErrorAt stamp          `db:"last_error_at"`
}

const selectSources = `SELECT id, kind, location, configured, synced, last_sync_at, last_error, last_error_at FROM sources `

func (r sourceRow) source() pod.Source {
	return pod.Source{ID: r.ID, Kind: r.Kind, Location: r.Location}
}

// SourceStatus is a source as it stands.
type SourceStatus struct {
	pod.Source
	Configured bool
	// Synced says that it was read whole at least once.
	Synced bool
	// LastSync is the last time that it was read whole since the agent was
	// started, whether or not anything had changed; zero: not yet. LastChange is
	// the last time that anything had changed.
	LastSync    time.Time
	LastChange  time.Time
	LastError   string // empty when the last reading succeeded
	LastErrorAt time.Time
	Pods        int // wanted by it
	Rejections  int
}

// ensureSource makes the source known, and synced if this is a sync. It writes
// only what is different, and reports whether nothing was.
func (t *WriteTx) ensureSource(src pod.Source, sync bool) (known bool, err error) {
	var row sourceRow
	found, err := t.find(&row, selectSources+`WHERE id = ?`, src.ID)
	if err != nil {
		return false, err
	}
	want := row
	want.ID, want.Kind, want.Location, want.Configured = src.ID, src.Kind, src.Location, true
	if sync {
		want.Synced, want.LastError, want.LastErrorAt = true, "", ""
	}
	if found && want == row {
		return true, nil
	}
	t.save(backupSource, src.ID)
	return false, t.named(`INSERT INTO sources (id, kind, location, configured, synced, last_sync_at, last_error, last_error_at)
		VALUES (:id, :kind, :location, :configured, :synced, :last_sync_at, :last_error, :last_error_at)
		ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, location = excluded.location, configured = excluded.configured,
		synced = excluded.synced, last_error = excluded.last_error, last_error_at = excluded.last_error_at`, want)
}

// SourceFailed records that the source can't be read. Its pods stay as they are.
func (s *Store) SourceFailed(ctx context.Context, src pod.Source, failure error) error {
	return s.Write(ctx, "record failure of source "+src.ID, func(t *WriteTx) error {
		if _, err := t.ensureSource(src, false); err != nil {
			return err
		}
		text := clip(failure.Error())
		_, err := t.Exec(`UPDATE sources SET last_error = ?, last_error_at = ? WHERE id = ? AND last_error <> ?`, text, t.now(), src.ID, text)
		return err
	})
}

// Configure says which sources there are. Those not known yet count as not
// synced, but for HTTP, whose pods are nowhere else than here. The pods of
// sources that are no longer configured are deleted, and those sources
// forgotten with the last of them.
func (s *Store) Configure(ctx context.Context, sources []pod.Source) error {
	err := s.Write(ctx, "configure sources", func(t *WriteTx) error {
		for _, src := range sources {
			if _, err := t.ensureSource(src, src.Kind == pod.SourceHTTP); err != nil {
				return err
			}
		}
		var known []sourceRow
		if err := t.Select(&known, selectSources+`WHERE configured`); err != nil {
			return err
		}
		for _, row := range known {
			if slices.ContainsFunc(sources, func(src pod.Source) bool { return src.ID == row.ID }) {
				continue
			}
			if err := s.retire(t, row); err != nil {
				return fmt.Errorf("retire source %s: %w", row.ID, err)
			}
		}
		return nil
	})
	if err == nil {
		s.configured.Store(true)
	}
	return err
}

func (s *Store) retire(t *WriteTx, row sourceRow) error {
	if _, err := t.Exec(`UPDATE sources SET configured = 0 WHERE id = ?`, row.ID); err != nil {
		return err
	}
	if _, err := t.Exec(`DELETE FROM rejections WHERE source = ?`, row.ID); err != nil {
		return err
	}
	t.save(backupSource, row.ID)
	var pods []podRow
	if err := t.Select(&pods, selectPods+`WHERE d.source = ? AND d.deletion_requested_at IS NULL`, row.ID); err != nil {
		return err
	}
	for _, p := range pods {
		if err := s.deletePod(t, p, nil, pod.CauseSource, fmt.Sprintf("source %s is no longer configured", row.ID)); err != nil {
			return err
		}
	}
	return t.dropRetired(row.ID)
}

// dropRetired forgets a source that is no longer configured once it has no pod
// any more.
func (t *WriteTx) dropRetired(id string) error {
	n, err := t.Exec(`DELETE FROM sources WHERE id = ? AND NOT configured
		AND NOT EXISTS (SELECT 1 FROM desired_pods d WHERE d.source = sources.id)`, id)
	if n > 0 {
		t.save(backupSource, id)
	}
	return err
}

// synced notes, in memory, that the source was read whole just now.
func (s *Store) synced(id string) {
	s.syncs.Lock()
	defer s.syncs.Unlock()
	s.lastSync[id] = s.now()
}

// Sources lists the sources by ID.
func (s *Store) Sources(ctx context.Context) ([]SourceStatus, error) {
	var rows []struct {
		sourceRow
		Pods       int `db:"pods"`
		Rejections int `db:"rejections"`
	}
	err := s.Read(ctx, func(t *ReadTx) error {
		return t.Select(&rows, `SELECT id, kind, location, configured, synced, last_sync_at, last_error, last_error_at,
			(SELECT count(*) FROM desired_pods d WHERE d.source = s.id AND d.deletion_requested_at IS NULL) AS pods,
			(SELECT count(*) FROM rejections r WHERE r.source = s.id) AS rejections
			FROM sources s ORDER BY id`)
	})
	if err != nil {
		return nil, err
	}
	s.syncs.Lock()
	defer s.syncs.Unlock()
	list := make([]SourceStatus, 0, len(rows))
	for _, r := range rows {
		list = append(list, SourceStatus{
			Source: r.source(), Configured: r.Configured, Synced: r.Synced, LastSync: s.lastSync[r.ID], LastChange: r.LastSyncAt.Time(),
			LastError: r.LastError, LastErrorAt: r.LastErrorAt.Time(), Pods: r.Pods, Rejections: r.Rejections,
		})
	}
	return list, nil
}
