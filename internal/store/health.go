package store

import (
	"sync"
	"syscall"
	"time"
)

// Health says what is wrong with the database; its zero value: nothing. It is
// kept in memory, since a store that can't write could not store it.
type Health struct {
	Reason  string // DiskFull, DiskError, ReadOnly, Corrupt or BackupFailed
	Message string // what to do about it
	Since   time.Time
}

// health follows the outcome of writes. The main file's trouble goes before the
// backup's.
type health struct {
	mu           sync.Mutex
	main, backup Health
	failed       chan struct{} // has room for one signal that writing began to fail
}

// broke takes the failure of a transaction. An error that is not the file's doing
// says nothing about it either way.
func (h *health) broke(now time.Time, err error, path string) {
	f := faultOf(err)
	if f == faultNone || f == faultBusy {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.main.Reason != string(f) {
		h.main = Health{Reason: string(f), Message: f.remedy(path), Since: now}
	}
	select {
	case h.failed <- struct{}{}:
	default:
	}
}

// minFree is the free space from which on a full disk counts as mended. Less is
// no sign: a small write may fit into the log that is there already.
const minFree = 1 << 20

// worked takes a commit that changed something. Damage is not mended by writing
// elsewhere: it stands until the store is opened anew.
func (h *health) worked(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.main.Reason == string(faultCorrupt):
		return
	case h.main.Reason == string(faultFull) && freeSpace(path) < minFree:
		return
	}
	h.main = Health{}
}

// freeSpace is what is left for unprivileged users, in bytes.
func freeSpace(path string) uint64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}

func (h *health) recordBackup(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.backup = Health{}
		return
	}
	since := now
	if h.backup.Reason != "" {
		since = h.backup.Since
	}
	h.backup = Health{Reason: "BackupFailed", Message: err.Error(), Since: since}
}

// mendable reports whether there is trouble that may pass by itself.
func (h *health) mendable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.main.Reason != "" && h.main.Reason != string(faultCorrupt)
}

// Health reports whether the last writes succeeded. A condition clears by
// itself when writing works again.
func (s *Store) Health() Health {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	if s.health.main.Reason != "" {
		return s.health.main
	}
	return s.health.backup
}
