package poll_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/source/poll"
	"podstead.io/podstead/internal/store"
)

// told passes calls on to a store, and tells that they are through.
type told struct {
	*store.Store
	done chan error
}

func (s *told) SyncSource(ctx context.Context, src pod.Source, set pod.SourceSet) (pod.SyncResult, error) {
	result, err := s.Store.SyncSource(ctx, src, set)
	s.done <- err
	return result, err
}

func (s *told) SourceFailed(ctx context.Context, src pod.Source, reason error) error {
	err := s.Store.SourceFailed(ctx, src, reason)
	s.done <- err
	return err
}

func openStore(t *testing.T) *told {
	t.Helper()
	s, _, err := store.Open(t.Context(), store.Options{
		Path:          filepath.Join(t.TempDir(), "podstead.db"),
		Restore:       manifest.Restore,
		ContainerEdge: func(_ pod.Transition, _, _ *pod.Container) []pod.Transition { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &told{Store: s, done: make(chan error, 1000)}
}

// expect waits until the store has these pods, and this is wrong with the only
// source.
func (s *told) expect(t *testing.T, want string) {
	t.Helper()
	for got := ""; ; got = s.stored(t) {
		select {
		case err := <-s.done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("stored: %q, want %q", got, want)
		}
		if s.stored(t) == want {
			return
		}
	}
}

func (s *told) stored(t *testing.T) string {
	t.Helper()
	desired, err := s.Pods(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := s.Sources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, d := range desired {
		if d.Deletion == nil {
			text += d.Name + " "
		}
	}
	return text + sources[0].LastError
}

func TestTheStoreKeepsThePodsOfAURLThatFails(t *testing.T) {
	var answer atomic.Pointer[http.HandlerFunc]
	say := func(status int, body string) {
		f := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
		answer.Store(&f)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	t.Cleanup(server.Close)
	s := openStore(t)
	say(200, pods("a", "b"))
	p := start(t, poll.Options{URL: server.URL, Sink: s, CheckFrequency: time.Hour})
	for _, step := range []struct {
		status int
		body   string
		want   string
	}{
		{200, pods("a", "b"), "a-node b-node "},
		{502, "", "a-node b-node read " + server.URL + ": it answers 502 Bad Gateway"},
		{200, pods("a") + "---\nkind: Nonsense\n", "a-node b-node "},
		{200, pods("b"), "b-node "},
		{200, "apiVersion: v1\nkind: PodList\nitems: []\n", ""},
	} {
		say(step.status, step.body)
		p.Resync()
		s.expect(t, step.want)
	}
}
