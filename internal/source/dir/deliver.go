package dir

import (
	"cmp"
	"context"
	"slices"
	"time"

	"podstead.io/podstead/internal/pod"
)

// delivery is how it stands between the files and the sink.
type delivery struct {
	synced bool // the sink has all pods that were found
	told   bool // the sink knows what is wrong with the source
	// reason is what was last found wrong with the source as a whole, or in
	// doubt; empty: nothing.
	reason     string
	unreadable bool // the source, so that there is nothing to sync
	failures   int  // of the sink, in a row
	conflicts  map[conflict]bool
}

// conflict is a pod that another one keeps from its name.
type conflict struct {
	unit, place string
	key         pod.Key
}

// due reports whether the sink has yet to take something.
func (d *delivery) due() bool { return !d.told || !d.synced && !d.unreadable }

// wait is the time to the next try with the sink.
func (d *delivery) wait() time.Duration {
	return min(100*time.Millisecond<<min(d.failures, 8), 20*time.Second)
}

// deliver tells the sink what was found, when that is news to it.
func (d *Directory) deliver(ctx context.Context, found findings, forced bool) {
	wrong := cmp.Or(found.err, found.doubt)
	before := d.delivery.reason
	d.noteReason(wrong, found.err != nil)
	if found.err == nil {
		recovered := before != "" && wrong == nil
		if !d.delivery.synced || found.news() || forced || recovered {
			d.sync(ctx, found, forced || recovered)
		}
	}
	if wrong != nil {
		// Told at every check, as a sync takes it for mended.
		d.delivery.told = d.delivered(ctx, d.sink.SourceFailed(ctx, d.source, wrong))
	}
}

// noteReason logs what is wrong with the source, once. Doubts change with every
// file that comes.
func (d *Directory) noteReason(wrong error, unreadable bool) {
	reason := ""
	if wrong != nil {
		reason = wrong.Error()
	}
	known := reason == d.delivery.reason || d.delivery.reason != "" && !d.delivery.unreadable && !unreadable
	switch {
	case wrong == nil || known:
	case unreadable:
		d.log.Warn("the source can't be read; its pods stay", "error", wrong)
	default:
		d.log.Info("the directory may be about to be filled; pods of missing files stay", "reason", wrong)
	}
	d.delivery.reason, d.delivery.unreadable, d.delivery.told = reason, unreadable, wrong == nil
}

func (d *Directory) sync(ctx context.Context, found findings, all bool) {
	var set pod.SourceSet
	if d.delivery.synced && !found.whole && !all {
		set = d.reader.some(found.changed)
	} else {
		set = d.reader.all()
	}
	if set.Units != nil && len(set.Units) == 0 {
		d.delivery.synced = true // there is nothing to say yet
		return
	}
	result, err := d.sink.SyncSource(ctx, d.source, set)
	d.delivery.synced = d.delivered(ctx, err)
	if !d.delivery.synced {
		return
	}
	d.reader.gone = nil
	if n := len(result.Created) + len(result.Updated) + len(result.Removed); n > 0 {
		d.log.Info("synced", "created", result.Created, "updated", result.Updated, "removed", result.Removed)
	}
	d.noteConflicts(set, result.Conflicts)
}

// noteConflicts logs those that are new.
func (d *Directory) noteConflicts(set pod.SourceSet, list []pod.Rejection) {
	standing := map[conflict]bool{}
	for c := range d.delivery.conflicts {
		if !set.Covers(c.unit) {
			standing[c] = true
		}
	}
	d.reader.logRefused(slices.DeleteFunc(slices.Clone(list), func(r pod.Rejection) bool {
		c := conflict{r.Unit, r.Place, r.Key}
		standing[c] = true
		return d.delivery.conflicts[c]
	}))
	d.delivery.conflicts = standing
}

// delivered notes how a call of the sink went.
func (d *Directory) delivered(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		d.delivery.failures = 0
	case ctx.Err() == nil:
		d.delivery.failures++
		d.log.Warn("the state of the source can't be stored; trying again", "error", err, "in", d.delivery.wait())
	}
	return err == nil
}
