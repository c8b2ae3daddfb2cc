// Package api is the agent's HTTP interface, served by chi on a unix socket:
// pods in Kubernetes' shapes, submission and withdrawal of manifests, SQL,
// health. Requests go in; reads of the store, and desired pods submitted as one
// more source, come out. It never acts on the runtime.
//
// Errors are Kubernetes Status objects; status.go is the only place that turns
// an error into an HTTP code. Every resource has a file.
//
// Serve owns the goroutines, one for each connection, and returns after the
// last has ended.
package api

import (
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/version"
	"podstead.io/podstead/internal/wire"
)

// Options are what the interface is made of. All are required but Docs and
// Limits.
type Options struct {
	Log     *slog.Logger
	Version version.Info
	Agent   wire.Agent
	// Health has what a restart of the agent would mend, Ready also what only
	// time or an administrator will.
	Health []Check
	Ready  []Check

	Parser manifest.Parser
	Pods   Pods
	Sink   Sink
	SQL    SQL
	// Docs are the pages served under /docs/; nil: none.
	Docs   fs.FS
	Limits Limits
}

// New is the handler of everything that the agent answers.
func New(o Options) http.Handler {
	limits := o.Limits.orDefault()
	mux := chi.NewRouter()
	mux.Use(logRequests(o.Log), recoverPanics(o.Log), noSniff, deadlines(limits), middleware.GetHead)
	mux.NotFound(notFound)
	mux.MethodNotAllowed(methodNotAllowed(mux))

	healthRoutes(mux, wire.PathHealth, o.Health)
	healthRoutes(mux, wire.PathReady, o.Ready)
	mux.Group(func(r chi.Router) {
		r.Use(inFlight(limits.InFlight))
		r.Get(wire.PathVersion, answerJSON(versionOf(o.Version)))
		r.Get(wire.PathAgent, answerJSON(o.Agent))
		podRoutes(r, o.Pods, o.Agent.Node)
		manifestRoutes(r, manifestHandler{parser: o.Parser, sink: o.Sink, pods: o.Pods, maxBody: limits.ManifestBytes})
		sqlRoutes(r, sqlHandler{sql: o.SQL, maxBody: limits.QueryBytes})
		if o.Docs != nil {
			r.Get("/docs/*", docs(o.Docs))
		}
	})
	return mux
}

// answerJSON always answers the same.
func answerJSON(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, v) }
}

// docs serves the pages as plain text, so that they are readable in a terminal
// and in a browser alike.
func docs(pages fs.FS) http.HandlerFunc {
	files := http.StripPrefix("/docs/", http.FileServerFS(pages))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		files.ServeHTTP(w, r)
	}
}
