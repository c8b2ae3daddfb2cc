package poll_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/source/poll"
)

func TestOverTheWire(t *testing.T) {
	var mu sync.Mutex
	body := pods("a")
	s, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("no gzip asked for")
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		if _, err := z.Write([]byte(body)); err != nil {
			t.Error(err)
		}
		if err := z.Close(); err != nil {
			t.Error(err)
		}
	})
	s.expect(t, "a")
	mu.Lock()
	body = `{"apiVersion":"v1","kind":"PodList","items":[` +
		`{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"busybox"}]}},` +
		`{"metadata":{"name":"c"},"spec":{"containers":[{"name":"c","image":"busybox"}]}}]}`
	mu.Unlock()
	s.expect(t, "b c")
	server.CloseClientConnections()
	server.Close()
	s.expect(t, "unavailable")
}

// A small answer may be a large one, compressed.
func TestCompressedBomb(t *testing.T) {
	s, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		zeros := make([]byte, 1<<20)
		for range 64 { // the other side may hang up
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
		_ = z.Close()
	})
	s.expect(t, "invalid", "larger than")
}

func TestCertificatesAreChecked(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	s := newSink()
	start(t, poll.Options{URL: server.URL, Sink: s})
	s.expect(t, "unavailable", "certificate")
}

func TestHeadersStayWithTheirHost(t *testing.T) {
	type request struct{ secret, authorization, referer, etag string }
	seen := func(r *http.Request) request {
		return request{r.Header.Get("X-Token"), r.Header.Get("Authorization"), r.Header.Get("Referer"), r.Header.Get("If-None-Match")}
	}
	synctest.Test(t, func(t *testing.T) {
		got := map[string]request{}
		s := newSink()
		start(t, poll.Options{
			URL: "https://user:pw@h/start?token=t", Sink: s,
			Header: http.Header{"X-Token": {"secret"}},
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				if r.URL.User != nil {
					t.Errorf("credentials in %s", r.URL.Redacted())
				}
				got[r.URL.Host+r.URL.Path] = seen(r)
				switch r.URL.Host + r.URL.Path {
				case "h/start":
					if r.URL.RawQuery != "token=t" {
						t.Errorf("query %q", r.URL.RawQuery)
					}
					return respond(301, "", "Location", "same"), nil
				case "h/same":
					return respond(307, "", "Location", "https://h:444/other"), nil
				case "h:444/other":
					return respond(308, "", "Location", "https://a:b@h/back"), nil
				}
				return respond(200, pods("a"), "ETag", `"1"`), nil
			}),
		})
		synctest.Wait()
		s.expect(t, "a")
		time.Sleep(20 * time.Second) // the second time there might be an ETag to send
		synctest.Wait()
		own := request{secret: "secret", authorization: "Basic dXNlcjpwdw=="}
		want := map[string]request{"h/start": own, "h/same": own, "h:444/other": {}, "h/back": {}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("requests %+v\nwant %+v", got, want)
		}
	})
}

func TestSecretsAreNotShown(t *testing.T) {
	const secret = "hunter2"
	logged := &log{}
	s := newSink()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://127.0.0.1:1/?token="+secret)
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, poll.Options{
		URL: "http://user:" + secret + "@" + u.Host + "/pods?token=" + secret + "#" + secret, Sink: s,
		Header: http.Header{"X-Token": {secret}}, Log: slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if want := (pod.Source{ID: "url:http://" + u.Host + "/pods", Kind: pod.SourceURL, Location: "http://" + u.Host + "/pods"}); p.Source() != want {
		t.Errorf("source %+v, want %+v", p.Source(), want)
	}
	call := s.next(t)
	if !strings.Contains(call, "refused") {
		t.Errorf("call %q", call)
	}
	for _, text := range []string{call, logged.String()} {
		if text == "" || strings.Contains(text, secret) {
			t.Errorf("a secret, or nothing, in %q", text)
		}
	}
	for _, bad := range []string{"", secret, "ftp://h/" + secret, "http://" + secret + ":x/", "http:///" + secret, "http://h/%zz" + secret} {
		_, err := poll.New(poll.Options{URL: bad, Log: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, pod.Invalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
