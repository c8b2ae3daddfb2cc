package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs the handler on a socket until stop is called, which returns what
// Serve did.
func serve(t *testing.T, h http.Handler) (path string, stop func() error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := api.Listen(path, -1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	stop = func() error {
		cancel()
		return <-done
	}
	t.Cleanup(cancel)
	return path, stop
}

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestServeStopsWhileIdle(t *testing.T) {
	path, stop := serve(t, newHost(t, nil))
	conn := dial(t, path)
	fmt.Fprint(conn, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	if err := stop(); err != nil {
		t.Errorf("an orderly stop is no error: %v", err)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the socket is still there")
	}
}

// A request under way may finish; one that does not is cancelled, so that the
// agent stops in time.
func TestServeStopsWhileBusy(t *testing.T) {
	for name, obeys := range map[string]bool{"finishes": false, "is cancelled": true} {
		t.Run(name, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			h := newHost(t, func(o *api.Options) {
				o.SQL = queryFunc(func(ctx context.Context, _ string, _ ...any) (wire.Rows, error) {
					close(entered)
					select {
					case <-release:
						return wire.Rows{Columns: []string{"a"}}, nil
					case <-ctx.Done():
						return wire.Rows{}, ctx.Err()
					}
				})
			})
			path, stop := serve(t, h)
			conn := dial(t, path)
			fmt.Fprint(conn, "POST /sql HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nselect 1")
			<-entered
			if !obeys {
				close(release)
			}
			begin := time.Now()
			if err := stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			if took := time.Since(begin); took > 1900*time.Millisecond {
				t.Errorf("it took %s", took)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			want := http.StatusOK
			if obeys {
				want = http.StatusServiceUnavailable
			}
			if resp.StatusCode != want {
				t.Errorf("got %s, want %d", resp.Status, want)
			}
		})
	}
}

// A client that sends its body a byte at a time, or not at all, is let go.
func TestSlowBodyIsGivenUp(t *testing.T) {
	h := newHost(t, func(o *api.Options) { o.Limits.Body = 50 * time.Millisecond })
	path, stop := serve(t, h)
	conn := dial(t, path)
	fmt.Fprint(conn, "POST /sql HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\ns")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(body), string(metav1.StatusReasonTimeout)) {
		t.Errorf("got %s: %s (%v)", resp.Status, body, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// The deadline is the body's alone: what is done with it may take longer.
func TestBodyDeadlineDoesNotEndTheRequest(t *testing.T) {
	const patience = 50 * time.Millisecond
	h := newHost(t, func(o *api.Options) {
		o.Limits.Body = patience
		o.SQL = queryFunc(func(ctx context.Context, _ string, _ ...any) (wire.Rows, error) {
			select {
			case <-ctx.Done():
				return wire.Rows{}, errors.New("cancelled")
			case <-time.After(4 * patience):
				return wire.Rows{}, nil
			}
		})
	})
	path, stop := serve(t, h)
	conn := dial(t, path)
	fmt.Fprint(conn, "POST /sql HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nselect 1")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %s", resp.Status)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestHugeHeaderIsRefused(t *testing.T) {
	path, stop := serve(t, newHost(t, nil))
	conn := dial(t, path)
	go fmt.Fprintf(conn, "GET /version HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("a", 64<<10)) //nolint:errcheck // it may be cut off
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s", resp.Status)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A client that dawdles over its headers holds a connection for seconds, not for
// ever.
func TestSlowHeaderIsGivenUp(t *testing.T) {
	t.Parallel()
	path, stop := serve(t, newHost(t, nil))
	conn := dial(t, path)
	fmt.Fprint(conn, "GET /version HTTP/1.1\r\nHost: x\r\n")
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the agent still waits: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A client that sends more than is taken, and is still sending, gets to read why:
// the connection is not closed under its hands. It was, most of the time.
func TestTooLargeBodyIsAnswered(t *testing.T) {
	path, stop := serve(t, newHost(t, nil))
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) },
	}}
	body := strings.Repeat("# nothing\n", 500_000)
	for range 10 {
		resp, err := client.Post("http://x"+wire.PathManifests, "application/yaml", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("the answer is %d", resp.StatusCode)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
