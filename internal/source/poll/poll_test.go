package poll_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

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

// sink records calls in words: the pods, then rejections; or the error's class
// and text.
type sink struct {
	calls chan string
	mu    sync.Mutex
	fail  int // so many calls
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

// expect waits for the next call.
func (s *sink) expect(t *testing.T, want string) {
	t.Helper()
	if call := s.next(t); call != want {
		t.Fatalf("call %q, want %q", call, want)
	}
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

// quiet is for when all goroutines wait.
func (s *sink) quiet(t *testing.T) {
	t.Helper()
	select {
	case c := <-s.calls:
		t.Fatalf("unexpected call %q", c)
	default:
	}
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

// answer is what a server does with a request.
type answer func(*http.Request) (*http.Response, error)

// site answers requests inside a bubble of synctest, one at a time.
type site struct {
	mu     sync.Mutex
	answer answer
	asked  []time.Time
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Now())
	return s.answer(r)
}

func (s *site) set(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = a
}

// requests is how many there were since the last time it was called.
func (s *site) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.asked)
	s.asked = nil
	return n
}

func respond(status int, body string, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// always is the answer to any request.
func always(status int, body string, header ...string) answer {
	return func(*http.Request) (*http.Response, error) { return respond(status, body, header...), nil }
}

// after lets time pass in a bubble, and everything happen that falls due.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

const (
	brokeOff    = "unavailable: read http://h/pods: the answer broke off"
	fiveOhThree = "unavailable: read http://h/pods: it answers 503 Service Unavailable"
)

func brokenOff(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// inBubble polls http://h/pods, which answers so at first.
func inBubble(t *testing.T, a answer, test func(t *testing.T, h *site, s *sink, p *poll.Poller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, s := &site{answer: a}, newSink()
		p := start(t, poll.Options{URL: "http://h/pods", Sink: s, Transport: h})
		test(t, h, s, p)
	})
}

func TestTheURLIsAskedOftenAndTheSinkToldWhatIsNew(t *testing.T) {
	inBubble(t, always(200, pods("a")), func(t *testing.T, h *site, s *sink, _ *poll.Poller) {
		after(time.Minute)
		s.expect(t, "a")
		s.quiet(t)
		if n := h.requests(); n != 4 {
			t.Errorf("%d requests in the first minute", n)
		}
		h.set(always(200, pods("a", "b")))
		after(20 * time.Second)
		s.expect(t, "a b")
		h.set(always(200, `{"apiVersion":"v1","kind":"PodList","items":[]}`))
		after(20 * time.Second)
		s.expect(t, "")
	})
}

// tagged answers as always does, or that the answer is as before.
func tagged(etag, body string) answer {
	return func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("If-None-Match") == etag {
			return respond(304, ""), nil
		}
		return respond(200, body, "ETag", etag), nil
	}
}

func TestResyncAsksAtOnceAndTellsTheSinkInAnyCase(t *testing.T) {
	inBubble(t, tagged(`"1"`, pods("a")), func(t *testing.T, h *site, s *sink, p *poll.Poller) {
		after(25 * time.Second)
		s.expect(t, "a")
		h.requests()
		p.Resync()
		synctest.Wait()
		s.expect(t, "a")
		if n := h.requests(); n != 1 {
			t.Errorf("%d requests", n)
		}
		after(19 * time.Second) // the next is due 20 s after this one
		if n := h.requests(); n != 0 {
			t.Errorf("%d requests", n)
		}
		s.quiet(t)
	})
}

func TestAFailureKeepsThePodsAndIsToldWhenItIsOver(t *testing.T) {
	inBubble(t, always(200, pods("a")), func(t *testing.T, h *site, s *sink, _ *poll.Poller) {
		synctest.Wait()
		s.expect(t, "a")
		h.set(always(503, pods("b")))
		after(20 * time.Second)
		s.expect(t, fiveOhThree)
		h.set(brokenOff)
		after(time.Second)
		s.expect(t, brokeOff) // another reason
		h.set(always(200, pods("a")))
		after(2 * time.Second)
		s.expect(t, "a") // the same, but the sink must know that all is well
		after(time.Minute)
		s.quiet(t)
	})
}

func TestAFailureIsOverWhenTheServerSaysThatNothingHasChanged(t *testing.T) {
	inBubble(t, tagged(`"1"`, pods("a")), func(t *testing.T, h *site, s *sink, _ *poll.Poller) {
		synctest.Wait()
		s.expect(t, "a")
		h.set(brokenOff)
		after(20 * time.Second)
		s.expect(t, brokeOff)
		h.set(always(304, ""))
		after(time.Second)
		s.expect(t, "a")
		s.quiet(t)
	})
}

func TestTheURLIsAskedAgainSoonAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		h := &site{answer: brokenOff}
		start(t, poll.Options{URL: "http://h/pods", Sink: newSink(), Transport: h})
		after(60 * time.Second)
		h.set(always(200, pods("a")))
		after(12 * time.Second) // until just after it was asked once more
		h.set(brokenOff)
		after(22 * time.Second)
		var seconds []int
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, at := range h.asked {
			seconds = append(seconds, int(at.Sub(begin).Seconds()))
		}
		if want := []int{0, 1, 3, 7, 15, 31, 51, 71, 91, 92, 94}; fmt.Sprint(seconds) != fmt.Sprint(want) {
			t.Errorf("asked at %v, want %v", seconds, want)
		}
	})
}

func TestWhatTheSinkDoesNotTakeIsOfferedAgainWithoutAskingTheURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := &site{answer: always(200, pods("a"))}, newSink()
		s.fail = 5
		start(t, poll.Options{URL: "http://h/pods", Sink: s, Transport: h})
		after(19 * time.Second)
		for range 6 {
			s.expect(t, "a")
		}
		s.quiet(t)
		if n := h.requests(); n != 1 {
			t.Errorf("%d requests", n)
		}
		after(time.Minute)
		s.quiet(t)
	})
}

func TestTheSinkIsOfferedTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := &site{answer: always(200, pods("a"))}, newSink()
		s.fail = 1000
		start(t, poll.Options{URL: "http://h/pods", Sink: s, Transport: h})
		after(10 * time.Minute) // back-off is at its longest
		h.set(always(200, pods("b")))
		after(20 * time.Second)
		s.drain()
		s.mu.Lock()
		s.fail = 0
		s.mu.Unlock()
		after(20 * time.Second)
		s.expect(t, "b")
		s.quiet(t)
	})
}

func (s *sink) drain() {
	for len(s.calls) > 0 {
		<-s.calls
	}
}

func TestABrokenManifestKeepsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := &site{answer: always(200, "<html>log in</html>")}, newSink()
		start(t, poll.Options{URL: "http://user:pw@h/pods?token=t", Sink: s, Transport: h})
		synctest.Wait()
		s.expect(t, "!Syntax http://h/pods ?")
		h.set(always(200, pods("a")+"---\nkind: Secret\n"))
		after(20 * time.Second)
		s.expect(t, "a !Invalid http://h/pods ?")
		after(time.Minute)
		s.quiet(t) // it is as broken as before
	})
}

func TestAnAnswerThatTakesTooLongIsGivenUp(t *testing.T) {
	hang := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	inBubble(t, always(200, pods("a")), func(t *testing.T, h *site, s *sink, _ *poll.Poller) {
		synctest.Wait()
		s.expect(t, "a")
		h.set(hang)
		after(30*time.Second - 1)
		s.quiet(t)
		after(1)
		s.expect(t, "unavailable: read http://h/pods: there is no complete answer within 10s")
	})
}

// An agent that stops does not wait for a server, nor tell the sink anything.
func TestStoppingEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		p, err := poll.New(poll.Options{URL: "http://h/", Sink: s, Log: slog.New(slog.DiscardHandler), Transport: &site{
			answer: func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			},
		}})
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
