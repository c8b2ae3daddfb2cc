package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"podstead.io/podstead/internal/pod"
)

// applicationID marks a database as Podstead's; the first migration sets it.
const applicationID = 0x506F6473

// condition is what a look at the file's first bytes tells.
type condition int

const (
	absent  condition = iota // or empty, which a power cut can leave behind
	garbage                  // not a database
	foreign                  // a database of another program
	ours
)

// headerSize and applicationAt are SQLite's: https://sqlite.org/fileformat2.html#the_database_header
const (
	headerSize    = 100
	applicationAt = 68
)

// look must not be used while this process has the database open: closing a
// file drops all POSIX locks that the process holds on it. It is safe to judge
// by the main file alone, since make publishes a database only whole.
func look(path string) (condition, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return absent, nil
	}
	if err != nil {
		return absent, &pod.Error{Class: pod.Unavailable, Op: "open database", Object: path, Err: fmt.Errorf("%s (%w)", faultDisk.remedy(path), err)}
	}
	defer f.Close()
	var head [headerSize]byte
	n, err := io.ReadFull(f, head[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return absent, nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return absent, &pod.Error{Class: pod.Unavailable, Op: "read database", Object: path, Err: fmt.Errorf("%s (%w)", faultDisk.remedy(path), err)}
	case err != nil || string(head[:16]) != "SQLite format 3\x00":
		return garbage, nil
	case binary.BigEndian.Uint32(head[applicationAt:]) != applicationID:
		return foreign, nil
	}
	return ours, nil
}

// openSound opens the writer on a sound database, making one if there is none
// or the one there is damaged.
func openSound(ctx context.Context, o Options) (*sqlx.DB, OpenReport, error) {
	var report OpenReport
	c, err := look(o.Path)
	if err != nil {
		return nil, report, err
	}
	switch c {
	case absent:
		report.Created = true
	case foreign:
		return nil, report, &pod.Error{Class: pod.Invalid, Op: "open database", Object: o.Path, Err: errors.New(
			"it is a database of another program: move it away, or give another --root-dir")}
	case garbage:
		report.Damage = "it is not a database"
	case ours:
		db, err := openChecked(ctx, o.Driver, o.Path)
		if err == nil {
			return db, report, nil
		}
		if faultOf(err) != faultCorrupt {
			return nil, report, err
		}
		report.Damage = err.Error()
	}
	if err := replace(ctx, o, &report); err != nil {
		return nil, report, err
	}
	db, err := openWriter(o.Driver, o.Path)
	return db, report, err
}

func openChecked(ctx context.Context, driver, path string) (*sqlx.DB, error) {
	db, err := openWriter(driver, path)
	if err != nil {
		return nil, err
	}
	if err := quickCheck(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// replace puts a new database in the place of the missing or damaged one, with
// desired state from the backup. It is made whole under another name first: a
// crash on the way leaves what was there, and the next start begins again.
func replace(ctx context.Context, o Options, report *OpenReport) error {
	saved, err := loadBackup(ctx, o.Driver, o.BackupPath)
	if err != nil {
		return err
	}
	if report.Damage != "" && saved == nil {
		return &pod.Error{Class: pod.Invalid, Op: "open database", Object: o.Path, Err: fmt.Errorf(
			"it is damaged (%s) and there is no backup to restore from: move it away to start empty; what directories and URLs want comes back by itself, what was submitted over HTTP must be submitted again", report.Damage)}
	}
	now := o.Now().UTC()
	if report.Damage != "" {
		report.Corrupt = fmt.Sprintf("%s.corrupt-%s", o.Path, now.Format("20060102T150405Z"))
	}
	fresh := o.Path + ".new"
	if err := makeDatabase(ctx, o, fresh, saved, report); err != nil {
		return err
	}
	return publish(o.Path, fresh, report.Corrupt)
}

// makeDatabase makes a database with what was saved, on disk when it returns.
func makeDatabase(ctx context.Context, o Options, path string, saved *savedState, report *OpenReport) error {
	if err := removeDatabase(path); err != nil {
		return fmt.Errorf("remove unfinished %s: %w", path, err)
	}
	// SQLite gives the files beside it the same mode.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return &pod.Error{Class: pod.Unavailable, Op: "create database", Object: path, Err: fmt.Errorf("%s (%w)", faultReadOnly.remedy(path), err)}
	}
	if err := f.Close(); err != nil {
		return err
	}
	// Only an empty database takes the setting, and any other is written to by it.
	db, err := openSQLite(o.Driver, path, writerSettings+"&_auto_vacuum=incremental", 1)
	if err != nil {
		return err
	}
	if err := fill(ctx, o, db, path, saved, report); err != nil {
		return errors.Join(err, db.Close(), removeDatabase(path))
	}
	return db.Close()
}

func fill(ctx context.Context, o Options, db *sqlx.DB, path string, saved *savedState, report *OpenReport) error {
	if _, err := migrate(ctx, db, path); err != nil {
		return err
	}
	// A throwaway store lends its transactions.
	s := &Store{path: path, writerDB: db, limits: o.Limits, clock: o.Now, order: newOrder(), normalizeImage: o.NormalizeImage}
	var err error
	if s.writer, err = connect(ctx, db); err != nil {
		return err
	}
	_, err = s.transact(ctx, durable, func(t *WriteTx) error {
		node := o.NodeID
		if saved != nil && saved.node != "" {
			node = saved.node
		}
		if node == "" {
			node = uuid.NewString()
		}
		if _, err := t.Exec(`INSERT INTO meta (key, value) VALUES ('node_id', ?), ('boot_id', ?)`, node, o.BootID); err != nil {
			return err
		}
		if saved == nil {
			return nil
		}
		report.Restored, report.Pods, report.Lost = true, len(saved.pods), saved.lost
		return s.restoreState(t, saved, *report)
	})
	if s.writer != nil {
		err = errors.Join(err, s.writer.close())
	}
	return err
}

// publish moves the fresh database into place, and the damaged one aside.
func publish(path, fresh, corrupt string) error {
	if corrupt != "" {
		if err := os.Rename(path, corrupt); err != nil {
			return fmt.Errorf("move damaged %s aside: %w", path, err)
		}
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		var err error
		if corrupt != "" && suffix == "-wal" {
			err = os.Rename(path+suffix, corrupt+suffix)
		} else {
			err = os.Remove(path + suffix)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("move %s%s aside: %w", path, suffix, err)
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("put new %s in place: %w", path, err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
