package poll

import (
	"context"
	"slices"
	"time"

	"podstead.io/podstead/internal/pod"
)

// delivery is how it stands between what was read and the sink.
type delivery struct {
	done      bool // the sink has it, or nothing was read yet
	failures  int  // of the sink, in a row
	conflicts map[pod.Key]bool
}

// wait is the time to the next try with the sink.
func (d delivery) wait() time.Duration {
	return min(100*time.Millisecond<<min(d.failures, 8), 20*time.Second)
}

// deliver gives the sink what was read last, unless it has it.
func (p *Poller) deliver(ctx context.Context) {
	if p.delivery.done {
		return
	}
	var result pod.SyncResult
	var err error
	if p.read.err != nil {
		err = p.sink.SourceFailed(ctx, p.source, p.read.err)
	} else {
		result, err = p.sink.SyncSource(ctx, p.source, p.read.set)
	}
	if err != nil {
		if ctx.Err() == nil {
			p.delivery.failures++
			p.log.Warn("the pods of the source can't be stored; trying again", "error", err, "in", p.delivery.wait())
		}
		return
	}
	p.delivery.done, p.delivery.failures = true, 0
	if n := len(result.Created) + len(result.Updated) + len(result.Removed); n > 0 {
		p.log.Info("synced", "created", result.Created, "updated", result.Updated, "removed", result.Removed)
	}
	if p.read.err == nil {
		p.noteConflicts(result.Conflicts)
	}
}

// noteConflicts logs those that are new.
func (p *Poller) noteConflicts(list []pod.Rejection) {
	standing := map[pod.Key]bool{}
	for _, r := range list {
		standing[r.Key] = true
	}
	p.logRefused(slices.DeleteFunc(slices.Clone(list), func(r pod.Rejection) bool { return p.delivery.conflicts[r.Key] }))
	p.delivery.conflicts = standing
}

func (p *Poller) logRefused(rejections []pod.Rejection) {
	for _, refused := range rejections {
		first := refused.Errors[0]
		p.log.Warn("manifest refused", "place", refused.Place, "reason", refused.Reason,
			"field", first.Field, "line", first.Line, "error", first.Message, "errors", len(refused.Errors))
	}
}
