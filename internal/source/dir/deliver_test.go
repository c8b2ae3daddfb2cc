package dir

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// contested is a sink to which pod a of each unit is another's.
type contested struct{ units []string }

func (c *contested) SyncSource(_ context.Context, _ pod.Source, set pod.SourceSet) (pod.SyncResult, error) {
	var result pod.SyncResult
	for _, unit := range c.units {
		if set.Covers(unit) {
			result.Conflicts = append(result.Conflicts, pod.Rejection{
				Unit: unit, Place: unit, Key: pod.Key{Namespace: "default", Name: "a"}, Reason: pod.RejectedConflict,
				Errors: []pod.FieldError{{Message: "taken"}},
			})
		}
	}
	return result, nil
}

func (c *contested) SourceFailed(context.Context, pod.Source, error) error { return nil }

// What stands is logged once, however often the rest changes, and again when it
// comes anew.
func TestStandingFaultsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	sink := &contested{units: []string{"a.yaml", "b.yaml"}}
	d := New(Options{Path: t.TempDir(), Parser: manifest.Parser{NodeName: "n"}, Sink: sink, Log: slog.New(slog.NewTextHandler(&log, nil))})
	d.reader.root.trusted = true
	logged := func(want int, why string) {
		t.Helper()
		if n := strings.Count(log.String(), "level="); n != want {
			t.Errorf("%s: %d lines, want %d:\n%s", why, n, want, log.String())
		}
		log.Reset()
	}
	whole := findings{whole: true}
	d.deliver(t.Context(), whole, false)
	logged(2, "at first")
	d.deliver(t.Context(), whole, false)
	d.deliver(t.Context(), findings{changed: []string{"a.yaml"}}, false)
	d.deliver(t.Context(), findings{changed: []string{"c.yaml"}}, false)
	d.deliver(t.Context(), findings{}, true)
	logged(0, "after other changes")
	sink.units = []string{"b.yaml"}
	d.deliver(t.Context(), findings{changed: []string{"a.yaml"}}, false)
	sink.units = []string{"a.yaml", "b.yaml"}
	d.deliver(t.Context(), findings{changed: []string{"a.yaml"}}, false)
	logged(1, "when one comes anew")

	missing := findings{err: errors.New("no such directory")}
	for range 3 {
		d.deliver(t.Context(), missing, false)
	}
	logged(1, "without the directory")
	for _, file := range []string{"a.yaml", "b.yaml"} {
		d.deliver(t.Context(), findings{doubt: errors.New(file + " is missing")}, false)
	}
	logged(1, "while it is being filled")
}
