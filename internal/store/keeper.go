package store

import (
	"context"
	"log/slog"
	"time"
)

const (
	// keepTimeout bounds one flush of the backup or one probe.
	keepTimeout = 30 * time.Second
	// retryEvery is how often what failed is tried again.
	retryEvery = 5 * time.Second
)

// keeper is the store's goroutine: it flushes the backup after commits, and
// while writing fails tries a small write now and then, so that the condition
// clears even if nobody else writes.
type keeper struct {
	store  *Store
	logger *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the last flush; read after done is closed
}

func startKeeper(ctx context.Context, s *Store, logger *slog.Logger) *keeper {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &keeper{store: s, logger: logger, cancel: cancel, done: make(chan struct{})}
	go k.run(ctx)
	return k
}

// stop flushes once more and waits for the goroutine to end.
func (k *keeper) stop() error {
	k.cancel()
	<-k.done
	return k.err
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	behind := k.flush(ctx) // of the last life, and to compare
	for {
		var retry <-chan time.Time
		if behind || k.store.health.mendable() {
			retry = time.After(retryEvery)
		}
		select {
		case <-ctx.Done():
			k.flush(context.WithoutCancel(ctx))
			return
		case <-k.store.backup.wake:
			behind = k.flush(ctx)
		case <-k.store.health.failed:
		case <-retry:
			if k.store.health.mendable() {
				k.probe(ctx)
			}
			behind = behind && k.flush(ctx)
		}
	}
}

// flush reports whether the backup is still behind. It logs when that changes.
func (k *keeper) flush(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	before := k.err
	k.err = k.store.backup.flush(bounded)
	switch {
	case k.err != nil && before == nil && ctx.Err() == nil:
		k.logger.Warn("the backup of desired state is behind", "err", k.err)
	case k.err == nil && before != nil:
		k.logger.Info("the backup of desired state is up to date again")
	}
	return k.err != nil
}

// probe writes without changing anything, to see whether that works again. The
// outcome is in the store's health.
func (k *keeper) probe(ctx context.Context) {
	err := k.store.Write(ctx, "probe", func(t *WriteTx) error {
		_, err := t.Exec(`UPDATE meta SET value = value WHERE key = 'node_id'`)
		return err
	})
	if err == nil && !k.store.health.mendable() {
		k.logger.Info("the database can be written again")
	}
}
