package store

import (
	"context"
	"fmt"
	"os"
)

// SQLite checkpoints by itself at 4 MB, but starts the log over only when no
// reader is in the way, and with many readers one always may be. Past logCap the
// writer waits for them, briefly; it tries again each time that the log has
// grown by logStep, so that a reader that stays costs little.
const (
	logCap        = 8 << 20
	logStep       = 4 << 20
	logPatienceMS = 200
)

// capLog is called with the writer's turn, outside of a transaction.
func (s *Store) capLog(ctx context.Context) {
	info, err := os.Stat(s.path + "-wal")
	if err != nil || info.Size() < logCap {
		s.logTried = 0
		return
	}
	if info.Size() < s.logTried+logStep {
		return
	}
	s.logTried = info.Size()
	defer s.setPatience(ctx, busyTimeoutMS)
	s.setPatience(ctx, logPatienceMS)
	if s.writer != nil {
		s.writer.exec(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`) //nolint:errcheck // the log stays as it is, and sound
	}
}

func (s *Store) setPatience(ctx context.Context, ms int) {
	if s.writer == nil {
		return
	}
	if _, err := s.writer.raw.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, ms)); err != nil {
		s.dropWriter()
	}
}
