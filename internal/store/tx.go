package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// writeTimeout bounds one write transaction once it has its turn. It is not cut
// short by the caller's context: an interrupted commit could not be told from a
// failed one.
const writeTimeout = 30 * time.Second

// ReadTx is a transaction that sees one snapshot. It must not be kept after the
// function that it was passed to returns. The texts of queries must be
// constants: they are prepared once and kept.
type ReadTx struct {
	conn *conn
	ctx  context.Context //nolint:containedctx // lives exactly as long as the transaction
}

// Get scans one row into dest; sql.ErrNoRows when there is none.
func (t *ReadTx) Get(dest any, query string, args ...any) error {
	s, err := t.conn.prepared(t.ctx, query)
	if err != nil {
		return err
	}
	return s.GetContext(t.ctx, dest, args...)
}

// Select scans all rows into the slice that dest points to.
func (t *ReadTx) Select(dest any, query string, args ...any) error {
	s, err := t.conn.prepared(t.ctx, query)
	if err != nil {
		return err
	}
	return s.SelectContext(t.ctx, dest, args...)
}

// find is Get that reports whether there was a row.
func (t *ReadTx) find(dest any, query string, args ...any) (bool, error) {
	err := t.Get(dest, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// WriteTx is a transaction of the only writer.
type WriteTx struct {
	ReadTx
	// Now is the transaction's time, in UTC, to the microsecond.
	Now time.Time

	store   *Store
	pods    map[types.UID]struct{}
	backup  map[backupKey]struct{}
	wrote   bool
	history int // rows added to transitions and events
	after   []func()
}

// Exec runs a statement and returns how many rows it changed.
func (t *WriteTx) Exec(query string, args ...any) (int64, error) {
	s, err := t.conn.prepared(t.ctx, query)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	t.wrote = t.wrote || n > 0
	return n, err
}

// named is Exec with the fields of arg as :parameters.
func (t *WriteTx) named(query string, arg any) error {
	positional, args, err := sqlx.Named(query, arg)
	if err != nil {
		return err
	}
	_, err = t.Exec(positional, args...)
	return err
}

// touch names a pod that may call for action once this is committed.
func (t *WriteTx) touch(uid types.UID) { t.pods[uid] = struct{}{} }

// touchAll touches the pods whose UIDs the query selects.
func (t *WriteTx) touchAll(query string, args ...any) error {
	var uids []types.UID
	err := t.Select(&uids, query, args...)
	for _, uid := range uids {
		t.touch(uid)
	}
	return err
}

// save names a row of desired state that the backup has to follow.
func (t *WriteTx) save(kind backupKind, key string) { t.backup[backupKey{kind, key}] = struct{}{} }

// onCommit runs fn after a successful commit, before the next transaction.
func (t *WriteTx) onCommit(fn func()) { t.after = append(t.after, fn) }

func (t *WriteTx) now() stamp { return stampOf(t.Now) }

// nextVersion is a resource version greater than any before.
func (t *WriteTx) nextVersion() (int64, error) {
	var v int64
	t.wrote = true
	err := t.Get(&v, `INSERT INTO meta (key, value) VALUES ('resource_version', '1')
		ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) RETURNING CAST(value AS INTEGER)`)
	return v, err
}

// durability says when a commit counts.
type durability bool

const (
	relaxed durability = false // once the operating system has it
	durable durability = true  // once the disk has it
)

// Read calls fn with a snapshot. What fn reads is consistent whatever is
// committed meanwhile.
func (s *Store) Read(ctx context.Context, fn func(*ReadTx) error) error {
	return explain("read", s.path, s.read(ctx, fn))
}

func (s *Store) read(ctx context.Context, fn func(*ReadTx) error) error {
	err := s.readers.use(ctx, func(c *conn) error { return fn(&ReadTx{conn: c, ctx: ctx}) })
	if err != nil {
		s.health.broke(s.now(), err, s.path)
	}
	return err
}

// Write calls fn in a write transaction, commits when it returns nil, and then
// calls the OnCommit hooks. why is the operation as errors name it.
func (s *Store) Write(ctx context.Context, why string, fn func(*WriteTx) error) error {
	return s.write(ctx, why, relaxed, fn)
}

// WriteDurably is Write that returns only once the disk has the commit.
func (s *Store) WriteDurably(ctx context.Context, why string, fn func(*WriteTx) error) error {
	return s.write(ctx, why, durable, fn)
}

func (s *Store) write(ctx context.Context, why string, d durability, fn func(*WriteTx) error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return explain(why, s.path, ctx.Err())
	}
	t, err := s.inTurn(ctx, d, fn)
	if err != nil {
		s.health.broke(s.now(), err, s.path)
		return explain(why, s.path, err)
	}
	if t.wrote {
		s.health.worked(s.path)
	}
	s.committed(t)
	return nil
}

// inTurn does what has to be done before the next transaction begins, and gives
// the turn up.
func (s *Store) inTurn(ctx context.Context, d durability, fn func(*WriteTx) error) (*WriteTx, error) {
	defer func() { <-s.turn }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	t, err := s.transact(ctx, d, fn)
	if err != nil {
		return nil, err
	}
	for _, fn := range t.after {
		fn()
	}
	if t.wrote {
		s.capLog(ctx)
	}
	return t, nil
}

// transact runs fn in one transaction of the writer connection.
func (s *Store) transact(ctx context.Context, d durability, fn func(*WriteTx) error) (*WriteTx, error) {
	if s.writer == nil { // it failed before
		c, err := connectWriter(ctx, s.writerDB)
		if err != nil {
			return nil, err
		}
		s.writer = c
	}
	if d == durable {
		// SQLite ignores a change of synchronous within a transaction.
		if err := s.writer.exec(ctx, `PRAGMA synchronous = FULL`); err != nil {
			return nil, err
		}
		defer s.relax(ctx)
	}
	if err := s.writer.exec(ctx, `BEGIN IMMEDIATE`); err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if !done {
			s.rollBack(ctx)
		}
	}()
	t := &WriteTx{
		ReadTx: ReadTx{conn: s.writer, ctx: ctx}, Now: s.now(), store: s,
		pods: map[types.UID]struct{}{}, backup: map[backupKey]struct{}{},
	}
	if err := fn(t); err != nil {
		return nil, err
	}
	if err := s.prune(t); err != nil {
		return nil, fmt.Errorf("prune history: %w", err)
	}
	if err := s.writer.exec(ctx, `COMMIT`); err != nil {
		return nil, err
	}
	done = true
	return t, nil
}

// rollBack leaves the writer without a transaction. SQLite may have rolled back
// already, which it calls an error; the connection is not trusted then.
func (s *Store) rollBack(ctx context.Context) {
	if s.writer.exec(ctx, `ROLLBACK`) != nil {
		s.dropWriter()
	}
}

// relax undoes what a durable transaction set.
func (s *Store) relax(ctx context.Context) {
	if s.writer != nil && s.writer.exec(ctx, `PRAGMA synchronous = NORMAL`) != nil {
		s.dropWriter()
	}
}

// dropWriter gives the connection up; the next transaction opens another, set up
// as the first was.
func (s *Store) dropWriter() {
	s.writer.close() //nolint:errcheck // there is nothing left to lose
	s.writer = nil
}

// committed tells everyone who has to know.
func (s *Store) committed(t *WriteTx) {
	if len(t.backup) > 0 {
		s.backup.follow(t.backup)
	}
	if len(t.pods) == 0 {
		return
	}
	c := pod.Changes{Pods: make([]types.UID, 0, len(t.pods))}
	for uid := range t.pods {
		c.Pods = append(c.Pods, uid)
	}
	s.hooks.Lock()
	fns := s.onCommit
	s.hooks.Unlock()
	for _, fn := range fns {
		fn(c)
	}
}

// OnCommit registers fn to be called after each commit that touched pods, on
// the goroutine that committed. It must be quick, and may use the store.
func (s *Store) OnCommit(fn func(pod.Changes)) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.onCommit = append(s.onCommit[:len(s.onCommit):len(s.onCommit)], fn)
}

// now is the store's clock, to the microsecond that is stored.
func (s *Store) now() time.Time { return s.clock().UTC().Truncate(time.Microsecond) }
