package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits bound what clients can make the agent hold. A zero field takes its
// default.
type Limits struct {
	ManifestBytes int64         // body of POST /manifests; 4 MiB
	QueryBytes    int64         // body of POST /sql; 1 MiB
	InFlight      int           // requests being answered, health apart; 64
	Body          time.Duration // for a body to arrive; 15 s
	Answer        time.Duration // from the request's head to the answer's end; 60 s
}

func (l Limits) orDefault() Limits {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.ManifestBytes, 4<<20)
	def(&l.QueryBytes, 1<<20)
	def((*int64)(&l.Body), int64(15*time.Second))
	def((*int64)(&l.Answer), int64(time.Minute))
	if l.InFlight == 0 {
		l.InFlight = 64
	}
	return l
}

// fault is where a handler leaves an internal error for logRequests.
type fault struct{ err error }

type faultKey struct{}

func noteFault(r *http.Request, err error) {
	if f, ok := r.Context().Value(faultKey{}).(*fault); ok {
		f.err = err
	}
}

// logRequests logs every request at debug level, and at error level those that
// failed by a fault of the agent's.
func logRequests(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			var f fault
			ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			defer func() {
				attrs := []slog.Attr{
					slog.String("method", r.Method), slog.String("path", r.URL.Path),
					slog.Int("status", ww.Status()), slog.Int("bytes", ww.BytesWritten()),
					slog.Duration("took", time.Since(start)),
				}
				level := slog.LevelDebug
				if f.err != nil {
					level = slog.LevelError
					attrs = append(attrs, slog.Any("error", f.err))
				}
				log.LogAttrs(r.Context(), level, "request", attrs...)
			}()
			next.ServeHTTP(ww, r.WithContext(context.WithValue(r.Context(), faultKey{}, &f)))
		})
	}
}

// recoverPanics answers 500 when a handler panics, or breaks the connection off
// when part of the answer is out already.
func recoverPanics(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				p := recover()
				if p == nil {
					return
				}
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				log.ErrorContext(r.Context(), "panic while answering a request",
					"method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if ww, ok := w.(middleware.WrapResponseWriter); ok && ww.Status() != 0 {
					panic(http.ErrAbortHandler)
				}
				writeStatus(w, status(http.StatusInternalServerError, metav1.StatusReasonInternalError,
					"the agent failed while answering; its log has the details"))
			}()
			next.ServeHTTP(w, r)
		})
	}
}

// noSniff keeps browsers from taking an answer for what it is not.
func noSniff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// deadlines bounds how long a connection may take to send the body and to take
// the answer. They are per request, not the server's, because streams to come
// have none. A writer without deadlines (a test's recorder) needs none.
func deadlines(l Limits) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			now := time.Now()
			_ = rc.SetWriteDeadline(now.Add(l.Answer))
			if r.ContentLength != 0 {
				_ = rc.SetReadDeadline(now.Add(l.Body))
			}
			next.ServeHTTP(w, r)
		})
	}
}

// inFlight answers 429 while n requests are being answered already. It does not
// queue: the clients are local and can wait better than the agent can.
func inFlight(n int) func(http.Handler) http.Handler {
	slots := make(chan struct{}, n)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				next.ServeHTTP(w, r)
			default:
				writeStatus(w, tooMany(fmt.Sprintf("%d requests are being answered already", n)))
			}
		})
	}
}

// methodNotAllowed answers 405 and says in Allow what the path takes.
func methodNotAllowed(mux *chi.Mux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if mux.Match(chi.NewRouteContext(), m, r.URL.Path) {
				allowed = append(allowed, m)
			}
			if m == http.MethodGet && len(allowed) > 0 {
				allowed = append(allowed, http.MethodHead)
			}
		}
		allow := strings.Join(allowed, ", ")
		w.Header().Set("Allow", allow)
		writeStatus(w, status(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			fmt.Sprintf("%s does not take %s; it takes %s", r.URL.Path, r.Method, allow)))
	}
}
