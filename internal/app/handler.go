package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/introspect"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/version"
	"podstead.io/podstead/internal/wire"
	"podstead.io/podstead/web"
)

// handler answers on the socket. The returned function closes the SQL engine.
func (a *agent) handler() (http.Handler, func() error, error) {
	sql, err := introspect.New(introspect.Options{Path: filepath.Join(a.cfg.RootDir, databaseFile)})
	if err != nil {
		return nil, nil, err
	}
	docs, err := fs.Sub(web.Files, "docs")
	if err != nil {
		return nil, nil, errors.Join(err, sql.Close())
	}
	where := wire.Agent{Node: a.node, PID: os.Getpid(), RootDir: a.cfg.RootDir, PodmanURL: a.url}
	for _, s := range a.sources {
		switch src := s.Source(); src.Kind {
		case pod.SourceDirectory:
			where.ManifestPaths = append(where.ManifestPaths, src.Location)
		case pod.SourceURL:
			where.ManifestURLs = append(where.ManifestURLs, src.Location)
		}
	}
	return api.New(api.Options{
		Log: a.log, Version: version.Get(), Agent: where,
		Health: []api.Check{{Name: "store", Run: a.alive}},
		Ready: []api.Check{
			{Name: "store", Run: a.storeReady},
			{Name: "podman", Run: func(context.Context) error { return a.observe.Health() }},
			{Name: "sources", Run: a.sourcesReady},
		},
		Parser: a.parser, Pods: a.store, Sink: a.store, SQL: queries{sql}, Docs: docs,
	}), sql.Close, nil
}

// storeReady fails while nothing can be written, or not where it will be found.
func (a *agent) storeReady(ctx context.Context) error {
	if err := a.store.Intact(ctx); err != nil {
		return err
	}
	if h := a.store.Health(); h.Reason != "" {
		return fmt.Errorf("%s: %s", h.Reason, h.Message)
	}
	return nil
}

// sourcesReady fails until every source has been read once, or has been found
// unreadable.
func (a *agent) sourcesReady(ctx context.Context) error {
	list, err := a.store.Sources(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range list {
		if !s.Synced && s.LastError == "" {
			errs = append(errs, fmt.Errorf("%s has not been read yet", s.ID))
		}
	}
	return errors.Join(errs...)
}

// queries gives the SQL engine the shape that the API declares.
type queries struct{ engine *introspect.Engine }

func (q queries) Query(ctx context.Context, text string, args ...any) (wire.Rows, error) {
	r, err := q.engine.Query(ctx, text, args...)
	return wire.Rows{Columns: r.Columns, Rows: r.Rows, Truncated: r.Truncated}, err
}
