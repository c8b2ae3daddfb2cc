package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// Store is the agent's database. Its methods may be called from any goroutine.
type Store struct {
	driver string // of database/sql
	path   string
	nodeID string
	bootID string
	limits Limits

	restore        func([]byte) (*corev1.Pod, error)
	containerEdge  func(last pod.Transition, old, updated *pod.Container) []pod.Transition
	normalizeImage func(string) string
	clock          func() time.Time

	nodeUUID uuid.UUID // namespace of the UIDs of static pods

	lock     *fileLock
	file     openFile
	writerDB *sqlx.DB // a pool of one
	readers  *pool
	backup   *backup
	health   health
	pods     podCache

	turn chan struct{} // held by the write transaction in progress; guards what follows

	writer   *conn // nil after it failed
	pruned   pruner
	order    order
	logTried int64 // size of the write-ahead log when it was last truncated in vain

	configured atomic.Bool // whether Configure was called
	rebooted   atomic.Bool

	hooks    sync.Mutex
	onCommit []func(pod.Changes)

	syncs    sync.Mutex
	lastSync map[string]time.Time

	keeper *keeper
}

// Open opens the database, making or mending it as needed: a missing or damaged
// one is made anew and desired state restored from the backup, a damaged one
// kept beside it under another name; an older schema is migrated.
//
// Errors name the file and the remedy. Class Conflict: another process has it.
// Class Invalid: it is not Podstead's, or of a newer version, or damaged with no
// backup to restore from. Class Unavailable: it can't be read or written.
func Open(ctx context.Context, o Options) (*Store, OpenReport, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, OpenReport{}, err
	}
	s := &Store{
		driver: o.Driver, path: o.Path, bootID: o.BootID, limits: o.Limits,
		restore: o.Restore, containerEdge: o.ContainerEdge, normalizeImage: o.NormalizeImage, clock: o.Now,
		turn: make(chan struct{}, 1), order: newOrder(), lastSync: map[string]time.Time{},
	}
	s.pods.pods = map[types.UID]cachedPod{}
	s.health.failed = make(chan struct{}, 1)
	s.backup = &backup{path: o.BackupPath, store: s, wake: make(chan struct{}, 1), pending: map[backupKey]struct{}{}}
	report, err := s.open(ctx, o)
	if err != nil {
		return nil, report, errors.Join(explain("open database", o.Path, err), s.shut())
	}
	s.keeper = startKeeper(ctx, s, o.Logger)
	return s, report, nil
}

func (s *Store) open(ctx context.Context, o Options) (OpenReport, error) {
	var err error
	if s.lock, err = lockFile(o.Path); err != nil {
		return OpenReport{}, err
	}
	var report OpenReport
	if s.writerDB, report, err = openSound(ctx, o); err != nil {
		return report, err
	}
	if report.Migrated, err = migrate(ctx, s.writerDB, o.Path); err != nil {
		return report, err
	}
	if s.writer, err = connectWriter(ctx, s.writerDB); err != nil {
		return report, err
	}
	if s.readers, err = openReaders(o.Driver, o.Path); err != nil {
		return report, err
	}
	if s.file, err = statOpen(o.Path); err != nil {
		return report, err
	}
	var bootID string
	err = s.read(ctx, func(t *ReadTx) error {
		if err := t.Get(&s.nodeID, `SELECT value FROM meta WHERE key = 'node_id'`); err != nil {
			return err
		}
		return t.Get(&bootID, `SELECT value FROM meta WHERE key = 'boot_id'`)
	})
	if err != nil {
		return report, fmt.Errorf("read %s: %w", o.Path, err)
	}
	s.nodeUUID = uuid.NewSHA1(uuid.Nil, []byte(s.nodeID))
	s.rebooted.Store(bootID != s.bootID)
	return report, nil
}

// NodeID is this node's identity, as labels carry it.
func (s *Store) NodeID() string { return s.nodeID }

// Close brings the backup up to date and closes the files. No other method may
// be in progress or called later.
func (s *Store) Close() error {
	err := s.keeper.stop()
	return errors.Join(err, s.shut())
}

// shut closes whatever is open, readers before the writer, so that the writer
// is last and leaves nothing in the write-ahead log.
func (s *Store) shut() error {
	errs := []error{s.backup.close()}
	if s.readers != nil {
		errs = append(errs, s.readers.close())
	}
	if s.writer != nil {
		// What stays of the log must not be taken for that of a file which someone
		// puts in the place of this one.
		s.writer.exec(context.Background(), `PRAGMA wal_checkpoint(TRUNCATE)`) //nolint:errcheck // the log stays as it is, and sound
		errs = append(errs, s.writer.close())
	}
	if s.writerDB != nil {
		errs = append(errs, s.writerDB.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	return errors.Join(errs...)
}
