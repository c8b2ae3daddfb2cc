// Package poll follows the manifests behind a URL. What goes in is one response
// after another; what comes out, to the Sink, is the complete set of pods that
// the last good one wants, whenever it differs from the one before.
//
// Nothing that a server does or fails to do removes pods, but for an answer that
// is a manifest and lacks them: an answer with another status, an empty one, or
// none is a failure of the source and keeps them all; a broken manifest keeps
// those it had.
//
// Run owns no goroutine but those of its HTTP connections, which end with it.
package poll

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"time"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// Sink takes what a source wants. Both calls may be repeated; a call that fails
// is.
type Sink interface {
	// SyncSource replaces everything that the source wants, but for pods of
	// incomplete units.
	SyncSource(ctx context.Context, src pod.Source, set pod.SourceSet) (pod.SyncResult, error)
	// SourceFailed records that the source can't be read at all. Its pods stay.
	SourceFailed(ctx context.Context, src pod.Source, reason error) error
}

// Options are what a Poller needs. URL, Parser.NodeName, Sink and Log have no
// default.
type Options struct {
	// URL may hold a user and password, and secrets in its query: they are sent
	// and never shown.
	URL string
	// Header is sent to the URL's own host only.
	Header http.Header
	Parser manifest.Parser
	Sink   Sink
	// CheckFrequency is the time between two polls: 20 s when it is zero,
	// kubelet's default. After a failure the next one comes sooner.
	CheckFrequency time.Duration
	// Timeout is for one poll as a whole, redirects included: 10 s when it is
	// zero, as in kubelet.
	Timeout time.Duration
	// Transport makes the requests; nil: one that checks certificates and obeys
	// HTTP_PROXY and its like.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Poller is the source. Make one with New.
type Poller struct {
	source   pod.Source
	parser   manifest.Parser
	sink     Sink
	interval time.Duration
	log      *slog.Logger
	fetcher  *fetcher
	forced   chan struct{}
	state    state
}

// state is what is known of the last polls.
type state struct {
	// have says that a manifest was read; the rest is about it.
	have       bool
	validators validators
	content    [sha256.Size]byte
	set        pod.SourceSet

	delivered bool // the sink has what was found last
	failing   bool // what was found last is a failure of the source
	failures  int  // of source or sink, in a row
}

// New makes the source; Run starts it. A URL that is none is an error of class
// Invalid.
func New(o Options) (*Poller, error) {
	if o.CheckFrequency == 0 {
		o.CheckFrequency = 20 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	o.Parser.Limits = o.Parser.Limits.WithDefaults()
	f, err := newFetcher(o)
	if err != nil {
		return nil, err
	}
	src := pod.Source{ID: "url:" + f.location, Kind: pod.SourceURL, Location: f.location}
	return &Poller{
		source: src, parser: o.Parser, sink: o.Sink, interval: o.CheckFrequency,
		log: o.Log.With("source", src.ID), fetcher: f, forced: make(chan struct{}, 1),
	}, nil
}

// Source is what the pods of this source carry. Nothing secret is in it.
func (p *Poller) Source() pod.Source { return p.source }

// Resync asks for an immediate poll, whose result goes to the sink even if
// nothing has changed. It does not wait for it.
func (p *Poller) Resync() {
	select {
	case p.forced <- struct{}{}:
	default: // one is due already
	}
}

// Run polls until ctx ends, and then returns nil: whatever fails is tried again.
func (p *Poller) Run(ctx context.Context) error {
	defer p.fetcher.close()
	for forced := false; ; {
		p.poll(ctx, forced)
		timer := time.NewTimer(p.state.next(p.interval))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			forced = false
		case <-p.forced:
			timer.Stop()
			forced = true
		}
	}
}

// next is the time to the next poll: after a failure a second, doubling up to
// the usual interval.
func (s state) next(interval time.Duration) time.Duration {
	if s.failures == 0 {
		return interval
	}
	return min(time.Second<<min(s.failures-1, 30), interval)
}

func (p *Poller) poll(ctx context.Context, forced bool) {
	answer, err := p.fetcher.fetch(ctx, p.state.validators)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.fail(ctx, err)
		return
	}
	changed := p.take(answer)
	if p.state.delivered && !p.state.failing && !changed && !forced {
		return
	}
	if p.state.failing {
		p.log.Info("the source can be read again")
	}
	p.state.failing = false
	result, err := p.sink.SyncSource(ctx, p.source, p.state.set)
	if !p.delivered(ctx, err) {
		return
	}
	p.state.failures = 0
	if n := len(result.Created) + len(result.Updated) + len(result.Removed); n > 0 {
		p.log.Info("synced", "created", result.Created, "updated", result.Updated, "removed", result.Removed)
	}
	p.logRefused(result.Conflicts)
}

// take keeps the answer, and reports whether it holds something new.
func (p *Poller) take(a answer) bool {
	if a.unchanged {
		return false
	}
	p.state.validators = a.validators
	content := sha256.Sum256(a.body)
	if p.state.have && p.state.content == content {
		return false
	}
	p.state.have, p.state.content = true, content
	p.state.set = p.parser.Parse(p.source.Location, a.body, pod.SourceURL)
	p.logRefused(p.state.set.Rejections)
	return true
}

// fail is called at every poll that fails, as the reason may change.
func (p *Poller) fail(ctx context.Context, reason error) {
	if !p.state.failing {
		p.log.Warn("the source can't be read; its pods stay", "error", reason)
	}
	p.state.failing = true
	p.state.failures++
	p.delivered(ctx, p.sink.SourceFailed(ctx, p.source, reason))
}

func (p *Poller) delivered(ctx context.Context, err error) bool {
	p.state.delivered = err == nil
	if err != nil && ctx.Err() == nil {
		p.state.failures++
		p.log.Warn("the pods of the source can't be stored; trying again", "error", err)
	}
	return err == nil
}

func (p *Poller) logRefused(rejections []pod.Rejection) {
	for _, r := range rejections {
		first := r.Errors[0]
		p.log.Warn("manifest refused", "place", r.Place, "reason", r.Reason,
			"field", first.Field, "line", first.Line, "error", first.Message, "errors", len(r.Errors))
	}
}
