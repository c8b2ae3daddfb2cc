package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/wire"
)

func TestUnknownPathsAndMethods(t *testing.T) {
	h := newHost(t, nil)
	wantStatus(t, h.call(t, "GET", "/nonsense", ""), http.StatusNotFound, metav1.StatusReasonNotFound)
	w := h.call(t, "PUT", "/pods", "")
	s := wantStatus(t, w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed)
	if allow := w.Header().Get("Allow"); allow != "GET, HEAD" || !strings.Contains(s.Message, allow) {
		t.Errorf("Allow is %q, the message %q", allow, s.Message)
	}
	w = h.call(t, "HEAD", "/sql", "")
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("HEAD of what takes POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

func TestHeadIsAnsweredLikeGet(t *testing.T) {
	for _, path := range []string{"/version", "/healthz", "/docs/sql.md"} {
		h := newHost(t, nil)
		if w := h.call(t, "HEAD", path, ""); w.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
}

func TestVersionIsInKubernetesShape(t *testing.T) {
	v := decode[wire.Version](t, newHost(t, nil).call(t, "GET", "/version", ""), http.StatusOK)
	if v.Major != "1" || v.Minor != "37" || v.GitVersion != "v1.37.2+podstead-0.2.0" || v.Podstead != "v0.2.0" || v.Bindings != "v4.9.5" {
		t.Errorf("got %+v", v)
	}
	if a := decode[wire.Agent](t, newHost(t, nil).call(t, "GET", "/agent", ""), http.StatusOK); a.Node != node {
		t.Errorf("the agent is %+v", a)
	}
}

func TestDocsAreText(t *testing.T) {
	w := newHost(t, nil).call(t, "GET", "/docs/sql.md", "")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || !strings.Contains(w.Body.String(), "<b>") {
		t.Errorf("%d %q: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Error("a browser may take the page for HTML")
	}
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	h := newHost(t, func(o *api.Options) {
		o.SQL = queryFunc(func(context.Context, string, ...any) (wire.Rows, error) { panic("the sky fell") })
	})
	s := wantStatus(t, h.call(t, "POST", "/sql", "select 1"), http.StatusInternalServerError, metav1.StatusReasonInternalError)
	if strings.Contains(s.Message, "sky") {
		t.Errorf("the panic is told to the client: %s", s.Message)
	}
	if log := h.log.String(); !strings.Contains(log, "the sky fell") || !strings.Contains(log, "middleware_test.go") {
		t.Errorf("the log has no panic with its stack: %s", log)
	}
}

// Each class of error has one code; an internal one is also logged.
func TestErrorsByClass(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   int
		reason metav1.StatusReason
		logged bool
	}{
		{&pod.Error{Class: pod.Invalid, Op: "x"}, http.StatusBadRequest, metav1.StatusReasonBadRequest, false},
		{&pod.Error{Class: pod.NotFound, Op: "x"}, http.StatusNotFound, metav1.StatusReasonNotFound, false},
		{&pod.Error{Class: pod.Conflict, Op: "x"}, http.StatusConflict, metav1.StatusReasonConflict, false},
		{&pod.Error{Class: pod.Forbidden, Op: "x"}, http.StatusForbidden, metav1.StatusReasonForbidden, false},
		{&pod.Error{Class: pod.Busy, Op: "x"}, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, false},
		{&pod.Error{Class: pod.Busy, Op: "x", Err: context.DeadlineExceeded}, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, false},
		{&pod.Error{Class: pod.Unavailable, Op: "x"}, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, false},
		{&pod.Error{Class: pod.Internal, Op: "x"}, http.StatusInternalServerError, metav1.StatusReasonInternalError, true},
		{errors.New("no class"), http.StatusInternalServerError, metav1.StatusReasonInternalError, true},
		{&pod.Error{Class: pod.Unavailable, Op: "x", Err: context.DeadlineExceeded}, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, false},
		{context.Canceled, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, false},
	} {
		h := newHost(t, func(o *api.Options) {
			o.SQL = queryFunc(func(context.Context, string, ...any) (wire.Rows, error) { return wire.Rows{}, c.err })
		})
		wantStatus(t, h.call(t, "POST", "/sql", "select 1"), c.code, c.reason)
		if logged := strings.Contains(h.log.String(), "level=ERROR"); logged != c.logged {
			t.Errorf("%v: logged as an error: %v, want %v", c.err, logged, c.logged)
		}
	}
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	h := newHost(t, func(o *api.Options) {
		o.Limits.InFlight = 2
		o.SQL = queryFunc(func(context.Context, string, ...any) (wire.Rows, error) {
			entered <- struct{}{}
			<-release
			return wire.Rows{}, nil
		})
	})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { h.call(t, "POST", "/sql", "select 1") })
		<-entered
	}
	w := h.call(t, "GET", "/version", "")
	wantStatus(t, w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	if w.Header().Get("Retry-After") == "" {
		t.Error("the client is not told when to come back")
	}
	if w := h.call(t, "GET", "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("health is not answered under load: %d", w.Code)
	}
	close(release)
	wg.Wait()
	if w := h.call(t, "GET", "/version", ""); w.Code != http.StatusOK {
		t.Errorf("slots are not given back: %d", w.Code)
	}
}
