package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/version"
	"podstead.io/podstead/internal/wire"
)

const node = "cabinet-7"

// host is a handler over whatever a test puts into its options.
type host struct {
	http.Handler
	log *syncBuffer
}

func newHost(t *testing.T, change func(*api.Options)) host {
	t.Helper()
	log := &syncBuffer{}
	o := api.Options{
		Log:     slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Version: version.Info{Version: "v0.2.0", Kubernetes: "v1.37.2", Bindings: "v4.9.5", GoVersion: "go1.26.8", Platform: "linux/arm64"},
		Agent:   wire.Agent{Node: node, RootDir: "/var/lib/podstead"},
		Docs:    fstest.MapFS{"sql.md": {Data: []byte("# SQL <b>\n")}},
	}
	if change != nil {
		change(&o)
	}
	return host{Handler: api.New(o), log: log}
}

// call sends one request and returns the answer.
func (h host) call(t *testing.T, method, target, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantStatus checks that the answer is a Status of that code and reason, and
// returns it.
func wantStatus(t *testing.T, w *httptest.ResponseRecorder, code int, reason metav1.StatusReason) wire.Refusal {
	t.Helper()
	var s wire.Refusal
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatalf("%d: not JSON (%v): %s", w.Code, err, w.Body)
	}
	if w.Code != code || s.Kind != "Status" || s.APIVersion != "v1" || int(s.Code) != code || s.Reason != reason || s.Status.Status != metav1.StatusFailure {
		t.Fatalf("got %d: %s\nwant a Status of %d %s", w.Code, w.Body, code, reason)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type is %q", ct)
	}
	return s
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder, code int) T {
	t.Helper()
	var v T
	if w.Code != code {
		t.Fatalf("got %d, want %d: %s", w.Code, code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return v
}

// syncBuffer takes log lines from several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// queryFunc is an SQL engine.
type queryFunc func(ctx context.Context, text string, args ...any) (wire.Rows, error)

func (f queryFunc) Query(ctx context.Context, text string, args ...any) (wire.Rows, error) {
	return f(ctx, text, args...)
}

// endless is a body that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

var _ io.Reader = endless{}
