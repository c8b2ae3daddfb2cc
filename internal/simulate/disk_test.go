package simulate

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/store"
)

// The files of an agent.
const (
	databaseFile = "podstead.db"
	backupFile   = "podstead-backup.db"
)

// errFull is SQLite's own error on a full disk.
var errFull = fullError()

func fullError() error {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close() //nolint:errcheck // it is in memory
	db.SetMaxOpenConns(1)
	for _, q := range []string{`CREATE TABLE t (x)`, `PRAGMA max_page_count = 2`} {
		if _, err := db.Exec(q); err != nil {
			panic(err)
		}
	}
	_, err = db.Exec(`INSERT INTO t VALUES (zeroblob(100000))`)
	return err
}

// template is a database without a pod in it: making one takes longer than all
// the rest of a short simulation.
var template = sync.OnceValue(func() []byte {
	dir, err := os.MkdirTemp("", "simulate")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system cleans its temporary files
	path := filepath.Join(dir, databaseFile)
	s, _, err := store.Open(context.Background(), store.Options{
		Path: path, NodeID: nodeID, BootID: bootID(0), Restore: manifest.Restore, ContainerEdge: lifecycle.ContainerEdge,
	})
	if err != nil {
		panic(err)
	}
	if err := s.Close(); err != nil {
		panic(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return content
})

// copyFiles copies what a process leaves behind on the disk when it is killed.
// The index of the write-ahead log is in memory, and made anew.
func copyFiles(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, name := range []string{databaseFile, databaseFile + "-wal", backupFile, backupFile + "-wal"} {
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// mark is a place in a write-ahead log: so many frames of the log with this salt.
type mark struct {
	salt   [8]byte
	frames uint32
}

// Offsets in the index of the write-ahead log
// (https://www.sqlite.org/walformat.html#the_wal_index_file_format).
const (
	indexFrames     = 16
	indexSalt       = 32
	indexBackfilled = 96
	indexSize       = 100
)

// readIndex gives the frames that are committed, and the end of those that a
// checkpoint has carried over, which were synced before.
func readIndex(path string) (committed, backfilled mark) {
	f, err := os.Open(path + "-shm")
	if err != nil {
		return mark{}, mark{}
	}
	defer f.Close() //nolint:errcheck // it was only read
	buf := make([]byte, indexSize)
	if _, err := io.ReadFull(f, buf); err != nil {
		return mark{}, mark{}
	}
	committed.salt = [8]byte(buf[indexSalt : indexSalt+8])
	committed.frames = binary.NativeEndian.Uint32(buf[indexFrames:])
	backfilled = mark{committed.salt, binary.NativeEndian.Uint32(buf[indexBackfilled:])}
	return committed, backfilled
}

func readMark(path string) mark {
	m, _ := readIndex(path)
	return m
}

// The write-ahead log has a header, and each frame of it one before its page.
const (
	logHeader   = 32
	frameHeader = 24
	pageSize    = 4096
)

// cut is a power cut: of what was not synced, the log keeps a part. What comes
// after that is garbage.
type cut struct {
	floor, committed mark
}

// foresee reads what a cut may leave while the log's index is still there.
func foresee(path string, synced mark) cut {
	committed, floor := readIndex(path)
	if synced.salt == committed.salt && synced.frames > floor.frames {
		floor = synced
	}
	return cut{floor: floor, committed: committed}
}

// apply cuts the copied log, and returns what is left of it. keep is the part
// kept of what may be lost.
func (c cut) apply(path string, keep float64, noise *rand.Rand) (mark, error) {
	left := mark{c.committed.salt, c.floor.frames + uint32(keep*float64(c.committed.frames-c.floor.frames)+0.5)}
	f, err := os.OpenFile(path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return left, nil
	}
	if err != nil {
		return left, err
	}
	info, err := f.Stat()
	end := int64(logHeader + int(left.frames)*(frameHeader+pageSize))
	if err != nil || info.Size() <= end {
		return left, errors.Join(err, f.Close())
	}
	if err := f.Truncate(end); err != nil {
		return left, errors.Join(err, f.Close())
	}
	torn := make([]byte, 512*noise.IntN(9))
	for i := range torn {
		torn[i] = byte(noise.Uint32())
	}
	_, err = f.WriteAt(torn, end)
	return left, errors.Join(err, f.Close())
}
