package poll_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/source/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pods(names ...string) string {
	var docs []string
	for _, name := range names {
		docs = append(docs, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: busybox}]}\n", name))
	}
	return strings.Join(docs, "---\n")
}

// sink records calls in words: the pods, then rejections; or the error's text.
type sink struct {
	calls chan string
	mu    sync.Mutex
	fail  int
}

func newSink() *sink { return &sink{calls: make(chan string, 1000)} }

func (s *sink) take(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls <- call
	if s.fail > 0 {
		s.fail--
		return &pod.Error{Class: pod.Unavailable, Op: "store", Err: errors.New("disk full")}
	}
	return nil
}

func (s *sink) SyncSource(_ context.Context, _ pod.Source, set pod.SourceSet) (pod.SyncResult, error) {
	parts := []string{}
	for _, p := range set.Pods {
		parts = append(parts, strings.TrimSuffix(p.Pod.Name, "-node"))
	}
	for _, r := range set.Rejections {
		parts = append(parts, "!"+string(r.Reason)+" "+r.Unit)
	}
	if len(set.Incomplete) > 0 {
		parts = append(parts, "?")
	}
	return pod.SyncResult{}, s.take(strings.Join(parts, " "))
}

func (s *sink) SourceFailed(_ context.Context, _ pod.Source, reason error) error {
	return s.take(string(pod.ClassOf(reason)) + ": " + reason.Error())
}

func (s *sink) next(t *testing.T) string {
	t.Helper()
	select {
	case c := <-s.calls:
		return c
	case <-time.After(20 * time.Second):
		t.Fatal("no call")
		return ""
	}
}

// expect waits for the next call, which must have each part in it.
func (s *sink) expect(t *testing.T, parts ...string) {
	t.Helper()
	call := s.next(t)
	for _, part := range parts {
		if !strings.Contains(call, part) {
			t.Fatalf("call %q has no %q", call, part)
		}
	}
}

func (s *sink) quiet(t *testing.T) {
	t.Helper()
	select {
	case c := <-s.calls:
		t.Fatalf("unexpected call %q", c)
	default:
	}
}

// log collects what is logged, to look for secrets in it.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// start polls until the test ends.
func start(t *testing.T, o poll.Options) *poll.Poller {
	t.Helper()
	o.Parser.NodeName = "node"
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p, err := poll.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p
}

// serve is a server that answers with handler and is polled often.
func serve(t *testing.T, handler http.HandlerFunc) (*sink, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s := newSink()
	start(t, poll.Options{URL: server.URL, Sink: s, CheckFrequency: 5 * time.Millisecond})
	return s, server
}

// transport answers requests inside a bubble of synctest.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// guarded is a transport that shares variables with its test, which changes
// and reads them in do.
type guarded struct {
	mu sync.Mutex
	transport
}

func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.transport(r)
}

func (g *guarded) do(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func respond(status int, body string, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestPollsAndSendsWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := pods("a")
		polls := 0
		s := newSink()
		server := &guarded{transport: func(*http.Request) (*http.Response, error) {
			polls++
			return respond(200, body), nil
		}}
		p := start(t, poll.Options{URL: "http://h/pods", Sink: s, Transport: server})
		synctest.Wait()
		s.expect(t, "a")
		for range 3 {
			time.Sleep(20 * time.Second)
			synctest.Wait()
			s.quiet(t)
		}
		server.do(func() {
			if polls != 4 {
				t.Errorf("%d polls in a minute", polls)
			}
			body = pods("a", "b")
		})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		s.expect(t, "a b")
		p.Resync()
		synctest.Wait()
		s.expect(t, "a b")
	})
}

func TestConditionalRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etag, body := `"1"`, pods("a")
		var asked []string
		s := newSink()
		s.fail = 1
		server := &guarded{transport: func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.Header.Get("If-None-Match")+" "+r.Header.Get("If-Modified-Since"))
			if r.Header.Get("If-None-Match") == etag {
				return respond(304, ""), nil
			}
			return respond(200, body, "ETag", etag, "Last-Modified", "yesterday"), nil
		}}
		start(t, poll.Options{URL: "http://h/", Sink: s, CheckFrequency: time.Minute, Transport: server})
		synctest.Wait()
		s.expect(t, "a") // which the sink can't store
		time.Sleep(time.Second)
		synctest.Wait()
		s.expect(t, "a") // though the server says that nothing has changed
		time.Sleep(time.Minute)
		synctest.Wait()
		s.quiet(t)
		server.do(func() { etag, body = `"2"`, pods("b") })
		time.Sleep(time.Minute)
		synctest.Wait()
		s.expect(t, "b")
		server.do(func() {
			if want := []string{" ", `"1" yesterday`, `"1" yesterday`, `"1" yesterday`}; fmt.Sprint(asked) != fmt.Sprint(want) {
				t.Errorf("asked %q, want %q", asked, want)
			}
		})
	})
}

func TestFailuresKeepThePods(t *testing.T) {
	large := poll.Options{Parser: manifest.Parser{Limits: manifest.Limits{UnitBytes: 10}}}
	tests := []struct {
		name   string
		answer func() (*http.Response, error)
		want   []string
		edit   poll.Options
	}{
		{"no connection", func() (*http.Response, error) { return nil, errors.New("dial tcp: connection refused") }, []string{"unavailable", "connection refused"}, poll.Options{}},
		{"an error of the server", func() (*http.Response, error) { return respond(503, pods("a")), nil }, []string{"unavailable", "503 Service Unavailable"}, poll.Options{}},
		{"no such page", func() (*http.Response, error) { return respond(404, ""), nil }, []string{"not found", "404 Not Found"}, poll.Options{}},
		{"no content", func() (*http.Response, error) { return respond(204, ""), nil }, []string{"unavailable", "204"}, poll.Options{}},
		{"an empty answer", func() (*http.Response, error) { return respond(200, ""), nil }, []string{"unavailable", "empty PodList"}, poll.Options{}},
		{"a large answer", func() (*http.Response, error) { return respond(200, pods("a")), nil }, []string{"invalid", "larger than 10 bytes"}, large},
		{"unchanged, unasked", func() (*http.Response, error) { return respond(304, ""), nil }, []string{"unavailable", "was not asked"}, poll.Options{}},
		{"redirects without end", func() (*http.Response, error) { return respond(302, "", "Location", "/again"), nil }, []string{"invalid", "more than 5 times"}, poll.Options{}},
		{"a redirect to nowhere", func() (*http.Response, error) { return respond(302, ""), nil }, []string{"invalid", "no URL"}, poll.Options{}},
		{"a redirect to a file", func() (*http.Response, error) { return respond(302, "", "Location", "file:///etc/passwd"), nil }, []string{"invalid", "no URL"}, poll.Options{}},
		{"a redirect that can't be read", func() (*http.Response, error) { return respond(302, "", "Location", "http://%zz?secret"), nil }, []string{"invalid", "no URL"}, poll.Options{}},
		{"a redirect to plain HTTP", func() (*http.Response, error) { return respond(302, "", "Location", "http://h/"), nil }, []string{"invalid", "from https to http"}, poll.Options{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSink()
				o := tt.edit
				o.URL, o.Sink = "https://h/pods", s
				o.Transport = transport(func(*http.Request) (*http.Response, error) { return tt.answer() })
				start(t, o)
				synctest.Wait()
				s.expect(t, append(tt.want, "https://h/pods")...)
			})
		})
	}
}

func TestRetriesSoonerAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		down := true
		var at []time.Duration
		s := newSink()
		server := &guarded{transport: func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(begin))
			if down {
				return nil, errors.New("down")
			}
			return respond(200, pods("a")), nil
		}}
		start(t, poll.Options{URL: "http://h/", Sink: s, Transport: server})
		time.Sleep(36 * time.Second)
		synctest.Wait()
		server.do(func() { down = false })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		server.do(func() { down = true })
		time.Sleep(15500 * time.Millisecond)
		synctest.Wait()
		server.do(func() { down = false })
		time.Sleep(time.Second)
		synctest.Wait()
		server.do(func() {
			if want := "[0s 1s 3s 7s 15s 31s 51s 1m11s 1m12s]"; fmt.Sprint(at) != want {
				t.Errorf("polled at %v, want %s", at, want)
			}
		})
		for range 6 {
			s.expect(t, "unavailable", "down")
		}
		s.expect(t, "a")
		s.expect(t, "unavailable", "down")
		s.expect(t, "a") // the same, but the sink must know that all is well
		s.quiet(t)
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := newSink()
		start(t, poll.Options{URL: "http://h/", Sink: s, Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		s.expect(t, "unavailable", "no answer within 10s")
		if d := time.Since(begin); d != 10*time.Second {
			t.Errorf("after %v", d)
		}
	})
}

func TestBrokenManifestIsIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := "<html>log in</html>"
		s := newSink()
		server := &guarded{transport: func(*http.Request) (*http.Response, error) { return respond(200, body), nil }}
		start(t, poll.Options{URL: "http://user:pw@h/pods?token=t", Sink: s, Transport: server})
		synctest.Wait()
		s.expect(t, "!Syntax http://h/pods ?")
		server.do(func() { body = pods("a") + "---\nkind: Secret\n" })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		s.expect(t, "a !Invalid http://h/pods ?")
	})
}

// An agent that stops does not wait for a server, nor tell the sink anything.
func TestStopsDuringAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		p, err := poll.New(poll.Options{URL: "http://h/", Sink: s, Log: slog.New(slog.DiscardHandler), Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d != time.Second {
			t.Errorf("stopped after %v", d)
		}
		s.quiet(t)
	})
}
