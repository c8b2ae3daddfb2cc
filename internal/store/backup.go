package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"

	"github.com/jmoiron/sqlx"
)

// backupKind tells the objects of the backup apart.
type backupKind string

const (
	backupNode        backupKind = "node"
	backupSource      backupKind = "source"
	backupIncarnation backupKind = "incarnation"
	backupPod         backupKind = "pod"
)

type backupKey struct {
	Kind backupKind `db:"kind"`
	Key  string     `db:"key"`
}

// backupApplicationID is "PodB" in ASCII; backupVersion is the format's.
const (
	backupApplicationID = 0x506F6442
	backupVersion       = 1
)

const backupSchema = `CREATE TABLE IF NOT EXISTS objects (
	-- One row is an object of desired state as podstead.db has it.
	kind   TEXT NOT NULL, -- node, source, incarnation or pod
	key    TEXT NOT NULL, -- what tells it from others of its kind
	data   TEXT NOT NULL, -- JSON
	sha256 TEXT NOT NULL, -- of data, in hex
	PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID`

type backupRow struct {
	backupKey
	Data string `db:"data"`
	Sum  string `db:"sha256"`
}

func (r backupRow) sound() bool { return r.Sum == sum(r.Data) }

func sum(data string) string {
	h := sha256.Sum256([]byte(data))
	return hex.EncodeToString(h[:])
}

// backup keeps a second database file in step with desired state. It is behind
// by what was committed in the last instant: it never delays a commit.
type backup struct {
	path  string // empty: there is none
	store *Store
	wake  chan struct{} // has room for one signal that pending is not empty

	mu      sync.Mutex
	pending map[backupKey]struct{}

	// writing guards what follows, and the file.
	writing sync.Mutex
	db      *sqlx.DB // opened by the first flush that succeeds
	file    openFile
}

// follow notes objects that have to be carried over.
func (b *backup) follow(keys map[backupKey]struct{}) {
	if b.path == "" {
		return
	}
	b.queue(keys)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *backup) queue(keys map[backupKey]struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.pending, keys)
}

// flush carries over what is pending; everything, if the file was not open yet.
// What could not be carried over stays pending.
func (b *backup) flush(ctx context.Context) error {
	if b.path == "" {
		return nil
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	keys := b.pending
	b.pending = map[backupKey]struct{}{}
	b.mu.Unlock()
	var err error
	if b.db != nil && !b.file.there() { // someone removed it
		err = b.db.Close()
		b.db = nil
	}
	if err != nil {
		err = fmt.Errorf("close what was removed: %w", err)
	} else if b.db == nil {
		err = b.openAndCompare(ctx)
	} else if len(keys) > 0 {
		err = b.carry(ctx, keys)
	}
	if err != nil {
		b.queue(keys)
		err = fmt.Errorf("write backup %s: %w", b.path, err)
	}
	b.store.health.recordBackup(b.store.now(), err)
	return err
}

func (b *backup) carry(ctx context.Context, keys map[backupKey]struct{}) error {
	puts := map[backupKey]string{}
	var drops []backupKey
	err := b.store.read(ctx, func(t *ReadTx) error {
		for k := range keys {
			data, found, err := t.backupObject(k)
			switch {
			case err != nil:
				return err
			case found:
				puts[k] = data
			default:
				drops = append(drops, k)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return putBackup(ctx, b.db, puts, drops)
}

// openAndCompare opens the file, makes it anew if it is not a sound backup, and
// carries over every difference.
func (b *backup) openAndCompare(ctx context.Context) error {
	db, rows, err := openBackup(ctx, b.store.driver, b.path)
	if faultOf(err) == faultCorrupt || errors.Is(err, errNotBackup) {
		if err := removeDatabase(b.path); err != nil {
			return err
		}
		db, rows, err = openBackup(ctx, b.store.driver, b.path)
	}
	if err != nil {
		return err
	}
	var all map[backupKey]string
	err = b.store.read(ctx, func(t *ReadTx) error {
		var err error
		all, err = t.backupObjects()
		return err
	})
	if err == nil {
		puts := maps.Clone(all)
		var drops []backupKey
		for _, r := range rows {
			switch data, wanted := all[r.backupKey]; {
			case !wanted:
				drops = append(drops, r.backupKey)
			case r.sound() && r.Data == data:
				delete(puts, r.backupKey)
			}
		}
		err = putBackup(ctx, db, puts, drops)
	}
	if err == nil {
		b.file, err = statOpen(b.path)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	b.db = db
	return nil
}

func putBackup(ctx context.Context, db *sqlx.DB, puts map[backupKey]string, drops []backupKey) error {
	if len(puts) == 0 && len(drops) == 0 {
		return nil
	}
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after a commit
	for k, data := range puts {
		if _, err := tx.ExecContext(ctx, `REPLACE INTO objects (kind, key, data, sha256) VALUES (?, ?, ?, ?)`, k.Kind, k.Key, data, sum(data)); err != nil {
			return err
		}
	}
	for _, k := range drops {
		if _, err := tx.ExecContext(ctx, `DELETE FROM objects WHERE kind = ? AND key = ?`, k.Kind, k.Key); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// errNotBackup says that a file is a sound database but not a backup of this
// format.
var errNotBackup = errors.New("not a backup that this podstead can read")

// openBackup opens or creates the backup, checks it, and reads all of it.
func openBackup(ctx context.Context, driver, path string) (*sqlx.DB, []backupRow, error) {
	// Manifests may hold secrets. The process does not have the file open yet, so
	// that closing it here drops no lock.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := f.Close(); err != nil {
		return nil, nil, err
	}
	db, err := openSQLite(driver, path, "_txlock=immediate&_journal_mode=WAL&_synchronous=FULL&_pragma=journal_size_limit(1048576)", 1)
	if err != nil {
		return nil, nil, err
	}
	rows, err := readBackup(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, rows, nil
}

func readBackup(ctx context.Context, db *sqlx.DB) ([]backupRow, error) {
	var head struct {
		Application int64 `db:"application_id"`
		Version     int   `db:"user_version"`
		Tables      int   `db:"tables"`
	}
	err := db.GetContext(ctx, &head, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) AS tables
		FROM pragma_application_id, pragma_user_version`)
	if err != nil {
		return nil, err
	}
	if head.Tables == 0 {
		_, err := db.ExecContext(ctx, fmt.Sprintf(`BEGIN; PRAGMA application_id = %d; PRAGMA user_version = %d; %s; COMMIT`, backupApplicationID, backupVersion, backupSchema))
		return nil, err
	}
	if head.Application != backupApplicationID || head.Version != backupVersion {
		return nil, errNotBackup
	}
	if err := quickCheck(ctx, db); err != nil {
		return nil, err
	}
	var rows []backupRow
	err = db.SelectContext(ctx, &rows, `SELECT kind, key, data, sha256 FROM objects ORDER BY kind, key`)
	return rows, err
}

// removeDatabase removes a database with what SQLite keeps beside it.
func removeDatabase(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (b *backup) close() error {
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.db == nil {
		return nil
	}
	return b.db.Close()
}
