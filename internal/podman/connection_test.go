package podman

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

// serve answers on a socket of its own as the handler does, but for pings, and
// returns a driver for it.
func serve(t *testing.T, handler http.HandlerFunc) *Driver {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "podman.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") && handler != nil {
			w.Header().Set("Libpod-API-Version", "4.3.1")
			return
		}
		if handler != nil {
			handler(w, r)
			return
		}
		select { // it hangs
		case <-over:
		case <-r.Context().Done():
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	d, err := New(Options{URL: "unix://" + socket, Node: "node-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(over)
		d.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return d
}

func TestHungServiceHoldsNobodyPastTheDeadline(t *testing.T) {
	d := serve(t, nil)
	const deadline = 300 * time.Millisecond
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			begun := time.Now()
			_, err := d.InspectContainer(ctx, "c1")
			if pod.ClassOf(err) != pod.Unavailable {
				t.Errorf("error %v of class %q", err, pod.ClassOf(err))
			}
			// The bindings alone take 0.6 s more.
			if took := time.Since(begun); took > 2*deadline {
				t.Errorf("it took %s", took)
			}
		})
	}
	callers.Wait()
}

func TestAbsentServiceIsUnavailableAtOnce(t *testing.T) {
	d, err := New(Options{URL: "unix://" + filepath.Join(t.TempDir(), "none.sock"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for _, err := range []error{d.Ping(t.Context()), d.RemoveContainer(t.Context(), "c1"), d.StartSandbox(t.Context(), "p1")} {
		if pod.ClassOf(err) != pod.Unavailable {
			t.Errorf("error %v of class %q", err, pod.ClassOf(err))
		}
	}
	if took := time.Since(begun); took > 500*time.Millisecond {
		t.Errorf("it took %s", took)
	}
}

func TestBrokenConnectionSendsNothingTwice(t *testing.T) {
	var creates atomic.Int32
	d := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		creates.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	})
	id := pod.Identity{Key: pod.Key{Namespace: "default", Name: "web"}, UID: "u", Node: "node-1", Kind: pod.KindSandbox, Container: "POD"}
	_, err := d.CreateSandbox(t.Context(), pod.SandboxSpec{Identity: id})
	if pod.ClassOf(err) != pod.Unavailable {
		t.Errorf("error %v of class %q", err, pod.ClassOf(err))
	}
	if n := creates.Load(); n != 1 {
		t.Errorf("the pod was asked for %d times", n)
	}
}

func TestURLIsASocket(t *testing.T) {
	for _, url := range []string{"", "tcp://127.0.0.1:1", "unix://podman.sock", "/run/podman/podman.sock"} {
		if _, err := New(Options{URL: url}); pod.ClassOf(err) != pod.Invalid {
			t.Errorf("%q: error %v", url, err)
		}
	}
}
