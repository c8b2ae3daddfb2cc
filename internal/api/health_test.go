package api_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"podstead.io/podstead/internal/api"
)

func TestHealthHasReasons(t *testing.T) {
	fine := api.Check{Name: "ping", Run: func(context.Context) error { return nil }}
	broken := api.Check{Name: "store", Run: func(context.Context) error { return errors.New("the disk is full:\nfree some space") }}
	bounded := api.Check{Name: "deadline", Run: func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			return errors.New("a check may hang for ever")
		}
		return nil
	}}
	h := newHost(t, func(o *api.Options) {
		o.Health = []api.Check{fine, bounded}
		o.Ready = []api.Check{fine, broken}
	})
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/healthz", http.StatusOK, "ok"},
		{"/healthz?verbose", http.StatusOK, "[+]ping ok\n[+]deadline ok\nhealthz check passed\n"},
		{"/readyz", http.StatusInternalServerError, "[+]ping ok\n[-]store failed: the disk is full:; free some space\nreadyz check failed\n"},
		{"/readyz/ping", http.StatusOK, "ok"},
		{"/readyz/store", http.StatusInternalServerError, "[-]store failed: the disk is full:; free some space\nreadyz check failed\n"},
	} {
		w := h.call(t, "GET", c.path, "")
		if w.Code != c.code || w.Body.String() != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, w.Code, w.Body, c.code, c.body)
		}
	}
	if w := h.call(t, "GET", "/readyz/nonsense", ""); w.Code != http.StatusNotFound {
		t.Errorf("an unknown check: %d", w.Code)
	}
}
