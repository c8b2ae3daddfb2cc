package dir

import (
	"context"
	"time"
)

// delivery is how it stands between the files and the sink.
type delivery struct {
	done     bool // the sink has what was found last
	failing  bool // what was found last is that the source can't be read
	failures int  // of the sink, in a row
}

// due reports whether the sink has yet to take something.
func (d delivery) due() bool { return !d.done }

// wait is the time to the next try with the sink.
func (d delivery) wait() time.Duration {
	return min(100*time.Millisecond<<min(d.failures, 8), 20*time.Second)
}

// deliver tells the sink what was found, when that is news to it.
func (d *Directory) deliver(ctx context.Context, found findings, forced bool) {
	if found.err != nil {
		d.deliverFailure(ctx, found.err)
		return
	}
	if d.delivery.done && !d.delivery.failing && !found.changed && !forced {
		return
	}
	result, err := d.sink.SyncSource(ctx, d.source, found.set)
	d.delivery.failing = false
	if !d.delivered(ctx, err) {
		return
	}
	if n := len(result.Created) + len(result.Updated) + len(result.Removed); n > 0 {
		d.log.Info("synced", "created", result.Created, "updated", result.Updated, "removed", result.Removed)
	}
	d.reader.logRefused(result.Conflicts)
}

// deliverFailure is called at every check that fails, as the reason may change.
func (d *Directory) deliverFailure(ctx context.Context, reason error) {
	if !d.delivery.failing {
		d.log.Warn("the source can't be read; its pods stay", "error", reason)
	}
	d.delivery.failing = true
	d.delivered(ctx, d.sink.SourceFailed(ctx, d.source, reason))
}

func (d *Directory) delivered(ctx context.Context, err error) bool {
	d.delivery.done = err == nil
	switch {
	case err == nil:
		d.delivery.failures = 0
	case ctx.Err() == nil:
		d.delivery.failures++
		d.log.Warn("the pods of the source can't be stored; trying again", "error", err, "in", d.delivery.wait())
	}
	return err == nil
}
