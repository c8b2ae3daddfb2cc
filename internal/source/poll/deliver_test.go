package poll

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// contested is a sink to which one pod is another's.
type contested struct{}

func (contested) SyncSource(context.Context, pod.Source, pod.SourceSet) (pod.SyncResult, error) {
	return pod.SyncResult{Conflicts: []pod.Rejection{{
		Unit: "u", Place: "u", Key: pod.Key{Namespace: "default", Name: "a"}, Reason: pod.RejectedConflict,
		Errors: []pod.FieldError{{Message: "taken"}},
	}}}, nil
}

func (contested) SourceFailed(context.Context, pod.Source, error) error { return nil }

// A conflict that stands is logged once, however often the rest changes.
func TestStandingConflictIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	p, err := New(Options{URL: "http://127.0.0.1/", Parser: manifest.Parser{NodeName: "n"}, Sink: contested{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.delivery.done = false
		p.deliver(t.Context())
	}
	if n := strings.Count(log.String(), "manifest refused"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}
