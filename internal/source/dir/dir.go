// Package dir follows the manifests in a directory, or in one file. What goes in
// is files; what comes out, to the Sink, is the pods that they want, as soon as a
// file is written and whenever a full recheck finds others.
//
// Each file is a unit of its own: one that is broken, unreadable or still being
// written keeps the pods that it had. A directory, or single file, that is
// missing or can't be read is a failure of the source, and keeps them all; so
// does, for a while, one that has come back without them. Files are read as
// kubelet does, every regular file of the directory itself, but for dot files and
// what editors and package managers leave behind.
//
// A report about one file costs what that file does, however many others there
// are: the sink is told of the changed units only.
//
// Run owns one goroutine besides its caller's: fsnotify's, which ends with it.
package dir

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// Sink takes what a source wants. Both calls may be repeated; a call that fails
// is.
type Sink interface {
	// SyncSource replaces everything that the source wants, or that the units do
	// of which the set speaks, but for pods of incomplete units.
	SyncSource(ctx context.Context, src pod.Source, set pod.SourceSet) (pod.SyncResult, error)
	// SourceFailed records that the source can't be read at all. Its pods stay.
	SourceFailed(ctx context.Context, src pod.Source, reason error) error
}

// Options are what a Directory needs. Path, Parser.NodeName, Sink and Log have
// no default.
type Options struct {
	// Path is a directory of manifests, or one manifest.
	Path   string
	Parser manifest.Parser
	Sink   Sink
	// CheckFrequency is how often everything is looked at although nothing was
	// reported: 20 s when it is zero, kubelet's default.
	CheckFrequency time.Duration
	Log            *slog.Logger
}

// Directory is the source. Make one with New.
type Directory struct {
	source   pod.Source
	path     string
	sink     Sink
	interval time.Duration
	log      *slog.Logger
	reader   *reader
	watch    *watch
	forced   chan struct{}
	delivery delivery
	listed   time.Time // when every file was last looked at
}

// confirmations is for how many checks a directory that has come back must stay
// the same before files that it lacks are believed to be gone: a minute with the
// default frequency.
const confirmations = 3

// New makes the source; Run starts it.
func New(o Options) *Directory {
	if o.CheckFrequency == 0 {
		o.CheckFrequency = 20 * time.Second
	}
	path := filepath.Clean(o.Path)
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute // reports of changes have it in front of names
	}
	o.Parser.Limits = o.Parser.Limits.WithDefaults()
	src := pod.Source{ID: "directory:" + path, Kind: pod.SourceDirectory, Location: path}
	log := o.Log.With("source", src.ID)
	return &Directory{
		source: src, path: path, sink: o.Sink, interval: o.CheckFrequency, log: log,
		reader: newReader(path, o.Parser, confirmations*o.CheckFrequency, log),
		watch:  newWatch(path, log),
		forced: make(chan struct{}, 1),
	}
}

// Source is what the pods of this source carry.
func (d *Directory) Source() pod.Source { return d.source }

// Resync asks for an immediate check, whose result goes to the sink even if
// nothing has changed. It does not wait for it.
func (d *Directory) Resync() {
	select {
	case d.forced <- struct{}{}:
	default: // one is due already
	}
}

// Run follows the directory until ctx ends, and then returns nil: whatever
// fails is tried again.
func (d *Directory) Run(ctx context.Context) error {
	defer d.watch.close()
	var wake wakeup
	for {
		// Watching comes first, so that nothing is missed in between.
		watched, fresh := d.watch.arm()
		due := time.Since(d.listed) >= d.interval || d.delivery.reason != ""
		wake.listing = wake.listing || due || fresh || !watched
		if wake.listing {
			d.listed = time.Now()
		}
		found := d.reader.scan(wake.look)
		d.deliver(ctx, found, wake.forced)
		wake = d.wait(ctx, d.nextCheck(watched, found))
		if ctx.Err() != nil {
			return nil
		}
	}
}

// blindInterval is the time between checks while nothing reports changes.
const blindInterval = time.Second

// nextCheck is how long to wait for a report before looking without one.
func (d *Directory) nextCheck(watched bool, found findings) time.Duration {
	next := max(d.interval-time.Since(d.listed), 0)
	if !watched {
		next = min(next, blindInterval)
	}
	if found.again > 0 {
		next = min(next, found.again)
	}
	if d.delivery.due() {
		next = min(next, d.delivery.wait())
	}
	return next
}

// wakeup is why the next check is made.
type wakeup struct {
	look
	forced bool
}

func (d *Directory) wait(ctx context.Context, timeout time.Duration) wakeup {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return wakeup{}
		case <-timer.C:
			return wakeup{}
		case <-d.forced:
			return wakeup{look: look{listing: true, everything: true}, forced: true}
		case e := <-d.watch.events():
			if wake, ok := d.watch.drain(e); ok {
				return wake
			}
		case err := <-d.watch.errors():
			d.log.Warn("reports of changes were lost; checking everything", "error", err)
			return wakeup{look: look{listing: true, everything: true}}
		}
	}
}
