// Package poll follows the manifests behind a URL. What goes in is the answer to
// a GET, asked for every 20 s; what comes out, to the Sink, is the complete set
// of pods that it wants, whenever it has changed.
//
// Only a complete answer of status 200 counts. Whatever else happens, the host
// being out of reach included, is a failure of the source and keeps its pods; a
// document that is refused keeps them too. Requests are conditional, so that an
// unchanged answer costs next to nothing.
//
// The URL and the headers may hold secrets: neither the source's ID and
// location, nor units, places, errors and logs have user information, query or
// headers in them. Headers go to the host that the URL names and, over
// redirects, to no other.
//
// The package owns no goroutine but those of the HTTP connections, which end
// with Run. Making a Poller asks nobody.
package poll

import (
	"context"
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
	// URL is of scheme http or https. A user and password in it are sent as
	// basic authentication.
	URL string
	// Header is sent with each request to the URL's host.
	Header http.Header
	Parser manifest.Parser
	Sink   Sink
	// CheckFrequency is the time between two requests: 20 s when it is zero,
	// kubelet's default. After a failure the next one is made sooner.
	CheckFrequency time.Duration
	// Timeout is for one answer, redirects and body included: 10 s when it is
	// zero, as in kubelet.
	Timeout time.Duration
	// Transport makes the requests; nil: one that checks certificates against
	// the system's and obeys HTTPS_PROXY and its like.
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
	read     reading
	delivery delivery
}

// reading is what the last requests showed.
type reading struct {
	set pod.SourceSet // of the last good answer
	// err says why the last answer was none; nil: it was good.
	err      error
	failures int // in a row
}

// next is the time to the next request: after a failure a second, doubling up to
// the usual.
func (r reading) next(interval time.Duration) time.Duration {
	if r.failures == 0 {
		return interval
	}
	return min(time.Second<<min(r.failures-1, 30), interval)
}

// New makes the source; Run starts it. An error is of class Invalid: the URL is
// none.
func New(o Options) (*Poller, error) {
	if o.CheckFrequency == 0 {
		o.CheckFrequency = 20 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	o.Parser.Limits = o.Parser.Limits.WithDefaults()
	target, err := parseTarget(o.URL, o.Header)
	if err != nil {
		return nil, err
	}
	src := pod.Source{ID: "url:" + target.location, Kind: pod.SourceURL, Location: target.location}
	return &Poller{
		source: src, parser: o.Parser, sink: o.Sink, interval: o.CheckFrequency,
		log:      o.Log.With("source", src.ID),
		fetcher:  newFetcher(target, o),
		forced:   make(chan struct{}, 1),
		delivery: delivery{done: true},
	}, nil
}

// Source is what the pods of this source carry.
func (p *Poller) Source() pod.Source { return p.source }

// Resync asks for an immediate check, whose result goes to the sink even if
// nothing has changed. It does not wait for it.
func (p *Poller) Resync() {
	select {
	case p.forced <- struct{}{}:
	default: // one is due already
	}
}

// Run follows the URL until ctx ends, and then returns nil: whatever fails is
// tried again. What the sink does not take is offered again without asking the
// URL for it.
func (p *Poller) Run(ctx context.Context) error {
	defer p.fetcher.close()
	check, retry := time.NewTimer(0), time.NewTimer(p.interval)
	defer check.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.forced:
			p.fetcher.forget()
			p.check(ctx)
			check.Reset(p.read.next(p.interval))
		case <-check.C:
			p.check(ctx)
			check.Reset(p.read.next(p.interval))
		case <-retry.C:
		}
		p.deliver(ctx)
		if p.delivery.done {
			retry.Stop()
		} else {
			retry.Reset(p.delivery.wait())
		}
	}
}

// check asks the URL, and makes what it says due if that is news.
func (p *Poller) check(ctx context.Context) {
	body, err := p.fetcher.fetch(ctx)
	switch {
	case ctx.Err() != nil: // the agent ends; that says nothing of the URL
	case err != nil:
		if p.read.err == nil {
			p.log.Warn("the source can't be read; its pods stay", "error", err)
		}
		p.read.err = err
		p.read.failures++
		p.delivery.done = false // the reason may be another one
	case body != nil:
		set := p.parser.Parse(p.source.Location, body, pod.SourceURL)
		p.logRefused(set.Rejections)
		p.good(set)
	case p.read.err != nil:
		p.good(p.read.set)
	}
}

// good notes a good answer that is news.
func (p *Poller) good(set pod.SourceSet) {
	if p.read.err != nil {
		p.log.Info("the source can be read again")
	}
	p.read = reading{set: set}
	p.delivery.done = false
}
