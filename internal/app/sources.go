package app

import (
	"context"
	"slices"
	"time"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/source/dir"
	"podstead.io/podstead/internal/source/poll"
	"podstead.io/podstead/internal/store"
)

// source is an origin of manifests that is followed.
type source interface {
	Source() pod.Source
	// Run follows it until ctx ends.
	Run(ctx context.Context) error
}

func (a *agent) makeSources() ([]source, error) {
	var out []source
	if a.cfg.PodManifestPath != "" {
		out = append(out, dir.New(dir.Options{
			Path: a.cfg.PodManifestPath, Parser: a.parser, Sink: a.store,
			CheckFrequency: a.cfg.FileCheckFrequency, Log: a.log,
		}))
	}
	if a.cfg.ManifestURL != "" {
		p, err := poll.New(poll.Options{
			URL: a.cfg.ManifestURL, Header: a.cfg.ManifestURLHeader, Parser: a.parser, Sink: a.store,
			CheckFrequency: a.cfg.HTTPCheckFrequency, Log: a.log,
		})
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// configured are all sources there are; the API is one.
func (a *agent) configured() []pod.Source {
	out := []pod.Source{api.Source}
	for _, s := range a.sources {
		out = append(out, s.Source())
	}
	return out
}

// allSynced reports whether every source has been read whole at least once.
func (a *agent) allSynced(ctx context.Context) bool {
	list, err := a.store.Sources(ctx)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(list, func(s store.SourceStatus) bool { return !s.Synced })
}

// read follows a source. With a database that was made anew it waits for what
// Podman has first, though not for ever: desired state must be taken in even
// while Podman is away.
func (a *agent) read(ctx context.Context, s source) error {
	if a.fresh {
		patience := time.NewTimer(adoptPatience)
		defer patience.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-a.observe.Synced():
		case <-patience.C:
			a.log.Warn("Podman does not answer; taking manifests in without knowing what runs", "source", s.Source().ID)
		}
	}
	return s.Run(ctx)
}
