package poll_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/source/poll"
)

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAnswers(t *testing.T) {
	corrupt := []byte(zipped(t, pods("a")))
	corrupt[len(corrupt)/2] ^= 0xff
	const toNowhere = "it redirects to something that is not an http or https URL"
	for _, test := range []struct {
		name   string
		answer answer
		want   string // the pods, or what follows "unavailable: read https://h/pods: "
		failed bool
	}{
		{name: "plain", answer: always(200, pods("a")), want: "a"},
		{name: "gzip", answer: always(200, zipped(t, pods("a")), "Content-Encoding", "gzip"), want: "a"},
		{name: "an error of the server", answer: always(503, pods("a")), failed: true, want: "it answers 503 Service Unavailable"},
		{name: "no such page", answer: always(404, ""), failed: true, want: "it answers 404 Not Found; check --manifest-url"},
		{name: "not let in", answer: always(401, ""), failed: true, want: "it answers 401 Unauthorized; check --manifest-url-header"},
		{name: "no content", answer: always(204, ""), failed: true, want: "it answers 204 No Content"},
		{name: "a part", answer: always(206, pods("a")), failed: true, want: "it answers 206 Partial Content"},
		{name: "unchanged, unasked", answer: always(304, ""), failed: true, want: "it answers 304 Not Modified"},
		{name: "empty", answer: always(200, ""), failed: true, want: "its answer is empty; to want no pods, answer with an empty PodList"},
		{name: "large", answer: always(200, pods("a")+strings.Repeat("#", 1000)), failed: true, want: "its answer is larger than 1000 bytes; split it up"},
		{name: "large when unpacked", answer: always(200, zipped(t, strings.Repeat("#", 1001)), "Content-Encoding", "gzip"), failed: true, want: "its answer is larger than 1000 bytes; split it up"},
		{name: "corrupt gzip", answer: always(200, string(corrupt), "Content-Encoding", "gzip"), failed: true, want: "its answer says that it is packed with gzip, and is not"},
		{name: "no gzip", answer: always(200, pods("a"), "Content-Encoding", "gzip"), failed: true, want: "its answer says that it is packed with gzip, and is not"},
		{name: "half of a gzip", answer: always(200, zipped(t, pods("a"))[:40], "Content-Encoding", "gzip"), failed: true, want: "the answer broke off"},
		{name: "packed otherwise", answer: always(200, pods("a"), "Content-Encoding", "br"), failed: true, want: "its answer is packed in a way that was not asked for; only gzip is understood"},
		{name: "redirects without end", answer: always(302, "", "Location", "/again"), failed: true, want: "it redirects more than 5 times"},
		{name: "a redirect to nowhere", answer: always(302, ""), failed: true, want: toNowhere},
		{name: "a redirect to a file", answer: always(302, "", "Location", "file:///etc/passwd"), failed: true, want: toNowhere},
		{name: "a redirect that can't be read", answer: always(302, "", "Location", "http://%zz?secret"), failed: true, want: toNowhere},
		{name: "a redirect to plain HTTP", answer: always(302, "", "Location", "http://h/"), failed: true, want: "it redirects from https to plain http, where anyone on the way could change manifests"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSink()
				start(t, poll.Options{
					URL: "https://h/pods", Sink: s, Transport: &site{answer: test.answer},
					Parser: manifest.Parser{Limits: manifest.Limits{UnitBytes: 1000}},
				})
				synctest.Wait()
				if test.failed {
					test.want = "unavailable: read https://h/pods: " + test.want
				}
				s.expect(t, test.want)
			})
		})
	}
}

// What a library says has ports, times and more in it that make each failure a
// new one.
func TestWhyThereIsNoAnswer(t *testing.T) {
	certificate := &x509.Certificate{NotBefore: time.Unix(0, 0).UTC(), NotAfter: time.Unix(86400, 0).UTC()}
	untrusted := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	for _, test := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: &net.DNSError{Name: "h", Err: "no such host", IsNotFound: true}}, "the host name h is not known"},
		{&net.DNSError{Name: "h", Server: "127.0.0.53:53", Err: "read udp 127.0.0.1:40001: i/o timeout", IsTimeout: true}, "the host name h can't be looked up: no name server answers"},
		{untrusted(x509.UnknownAuthorityError{}), "its certificate is signed by an unknown authority; add that to the system's trusted certificates"},
		{untrusted(x509.HostnameError{Certificate: certificate, Host: "h"}), "its certificate is not for h"},
		{untrusted(x509.CertificateInvalidError{Cert: certificate, Reason: x509.Expired, Detail: "current time"}), "its certificate is valid from 1970-01-01T00:00:00Z to 1970-01-02T00:00:00Z, which it is not by this machine's clock"},
		{untrusted(x509.CertificateInvalidError{Cert: certificate, Reason: x509.TooManyConstraints}), "its certificate can't be trusted"},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, "h refuses the TLS connection: tls: handshake failure"},
		{io.EOF, "the answer broke off"},
		{errors.New("malformed HTTP response \"token=t\""), "h does not answer in HTTP, or a proxy on the way refuses"},
	} {
		t.Run(test.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSink()
				start(t, poll.Options{URL: "https://h/pods", Sink: s, Transport: &site{
					answer: func(*http.Request) (*http.Response, error) { return nil, test.err },
				}})
				synctest.Wait()
				s.expect(t, "unavailable: read https://h/pods: "+test.want)
			})
		})
	}
}

func TestRequestsAreConditional(t *testing.T) {
	long, now := "Mon, 02 Jan 2006 15:04:05 GMT", "Tue, 03 Jan 2006 15:04:05 GMT"
	for _, test := range []struct {
		name    string
		headers []string
		want    string // If-None-Match and If-Modified-Since of the second request
	}{
		{"nothing to go by", []string{"Date", now}, "|"},
		{"an entity tag", []string{"Date", now, "ETag", `W/"1"`}, `W/"1"|`},
		{"a date", []string{"Date", now, "Last-Modified", long}, "|" + long},
		{"both", []string{"Date", now, "ETag", `"1"`, "Last-Modified", long}, `"1"|` + long},
		{"changed a moment ago, and perhaps again since", []string{"Date", now, "Last-Modified", now}, "|"},
		{"changed a second before", []string{"Date", now, "Last-Modified", "Tue, 03 Jan 2006 15:04:04 GMT"}, "|"},
		{"no date", []string{"Last-Modified", long}, "|"},
		{"not a date", []string{"Date", now, "Last-Modified", "yesterday"}, "|"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var second string
			inBubble(t, always(200, pods("a"), test.headers...), func(t *testing.T, h *site, _ *sink, _ *poll.Poller) {
				synctest.Wait()
				h.set(func(r *http.Request) (*http.Response, error) {
					second = r.Header.Get("If-None-Match") + "|" + r.Header.Get("If-Modified-Since")
					return respond(200, pods("a")), nil
				})
				after(20 * time.Second)
				h.requests() // whoever holds the lock sees second
				if second != test.want {
					t.Errorf("got %q, want %q", second, test.want)
				}
			})
		})
	}
}

func TestAnAnswerThatHasNotChangedIsNoNews(t *testing.T) {
	inBubble(t, tagged(`"1"`, pods("a")), func(t *testing.T, h *site, s *sink, _ *poll.Poller) {
		after(time.Minute)
		s.expect(t, "a")
		s.quiet(t)
		h.set(tagged(`"2"`, pods("b")))
		after(20 * time.Second)
		s.expect(t, "b")
		h.set(tagged(`"3"`, pods("b"))) // another tag, the same text
		after(20 * time.Second)
		s.quiet(t)
	})
}

// request is what a host got to see.
type request struct{ token, authorization, referer, etag, host string }

func TestHeadersGoToTheURLsHostOnly(t *testing.T) {
	got := map[string]request{}
	answer := func(r *http.Request) (*http.Response, error) {
		if r.URL.User != nil {
			t.Error("credentials in a request's URL")
		}
		at := r.URL.Scheme + "://" + r.URL.Host + r.URL.Path
		got[at] = request{
			r.Header.Get("X-Token"), r.Header.Get("Authorization"), r.Header.Get("Referer"), r.Header.Get("If-None-Match"), r.Host,
		}
		switch at {
		case "http://h/start":
			if r.URL.RawQuery != "token=t" {
				t.Errorf("query %q", r.URL.RawQuery)
			}
			return respond(301, "", "Location", "same"), nil
		case "http://h/same":
			return respond(307, "", "Location", "https://h/safer"), nil
		case "https://h/safer":
			return respond(307, "", "Location", "https://h:444/other"), nil
		case "https://h:444/other":
			return respond(308, "", "Location", "https://a:b@h/back"), nil
		default:
			return respond(200, pods("a"), "ETag", `"1"`), nil
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		start(t, poll.Options{
			URL: "http://user:pw@h/start?token=t", Sink: s, Transport: &site{answer: answer},
			Header: http.Header{"X-Token": {"secret"}, "Host": {"virtual"}},
		})
		after(20 * time.Second) // the second time there is a tag to send
		s.expect(t, "a")
	})
	own := request{token: "secret", authorization: "Basic dXNlcjpwdw==", host: "virtual"}
	want := map[string]request{
		"http://h/start": own, "http://h/same": own, "https://h/safer": own,
		"https://h:444/other": {host: "h:444"},
		"https://h/back":      {etag: `"1"`, host: "h"}, // its own tag, and nothing else
	}
	for at, w := range want {
		if got[at] != w {
			t.Errorf("%s got %+v, want %+v", at, got[at], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("requests: %+v", got)
	}
}

func TestAnAuthorizationHeaderGoesBeforeThatOfTheURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		start(t, poll.Options{
			URL: "https://user:pw@h/", Sink: s, Header: http.Header{"Authorization": {"Bearer b"}},
			Transport: &site{answer: func(r *http.Request) (*http.Response, error) {
				if a := r.Header.Get("Authorization"); a != "Bearer b" {
					t.Errorf("authorization %q", a)
				}
				return respond(200, pods("a")), nil
			}},
		})
		synctest.Wait()
		s.expect(t, "a")
	})
}

func TestOverTheWire(t *testing.T) {
	var mu sync.Mutex
	body := pods("a")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Accept-Encoding") != "gzip" || r.Header.Get("User-Agent") != "podstead" {
			t.Errorf("headers %v", r.Header)
		}
		w.Header().Set("Content-Encoding", "gzip")
		if _, err := io.WriteString(w, zipped(t, body)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	s := newSink()
	start(t, poll.Options{URL: server.URL, Sink: s, CheckFrequency: 5 * time.Millisecond})
	s.expect(t, "a")
	mu.Lock()
	body = `{"apiVersion":"v1","kind":"PodList","items":[` +
		`{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"busybox"}]}},` +
		`{"metadata":{"name":"c"},"spec":{"containers":[{"name":"c","image":"busybox"}]}}]}`
	mu.Unlock()
	s.expect(t, "b c")
	server.CloseClientConnections()
	server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for call := s.next(t); ; call = s.next(t) {
		if call == fmt.Sprintf("unavailable: read %s: %s can't be reached: connection refused", server.URL, host) {
			return
		}
		if !strings.HasPrefix(call, "unavailable: ") { // broken off, or reset, at first
			t.Fatalf("call %q", call)
		}
	}
}

func TestRunLeavesNoConnectionBehind(t *testing.T) {
	closed := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, pods("a")) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	t.Run("polling", func(t *testing.T) {
		s := newSink()
		start(t, poll.Options{URL: server.URL, Sink: s})
		s.expect(t, "a")
	})
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("it is still open")
	}
}

// listen serves each connection with handle.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		connections.Wait()
	})
	return l.Addr().String()
}

func TestAServerThatBreaksOff(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n%s", pods("a"))
	})
	s := newSink()
	start(t, poll.Options{URL: "http://" + addr + "/pods", Sink: s})
	s.expect(t, "unavailable: read http://"+addr+"/pods: the answer broke off")
}

func TestAServerThatNeverEnds(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			t.Error(err)
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
		for { // until the other side hangs up
			if _, err := c.Write(bytes.Repeat([]byte("#"), 4096)); err != nil {
				return
			}
		}
	})
	s := newSink()
	start(t, poll.Options{URL: "http://" + addr + "/pods", Sink: s})
	s.expect(t, "unavailable: read http://"+addr+"/pods: its answer is larger than 4194304 bytes; split it up")
}

func TestCertificatesAreChecked(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	s := newSink()
	start(t, poll.Options{URL: server.URL, Sink: s})
	s.expect(t, "unavailable: read "+server.URL+": its certificate is signed by an unknown authority; add that to the system's trusted certificates")
}

func TestAServerWithoutTLS(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	s := newSink()
	host := strings.TrimPrefix(server.URL, "http://")
	start(t, poll.Options{URL: "https://" + host, Sink: s})
	s.expect(t, fmt.Sprintf("unavailable: read https://%s: %s does not speak TLS; give an http URL or another port", host, host))
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

func TestSecretsAreNotShown(t *testing.T) {
	const secret = "hunter2"
	// The parrot answers with what it was asked, which is not HTTP.
	parrot := listen(t, func(c net.Conn) {
		if _, err := io.CopyN(c, c, 50); err != nil {
			t.Error(err)
		}
	})
	for name, answer := range map[string]http.HandlerFunc{
		"a broken manifest": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "nothing: good") },
		"an error":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"a redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://"+secret+"@127.0.0.1:1/?token="+secret)
			w.WriteHeader(302)
		},
		"a redirect to a parrot": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://"+parrot+"/?token="+secret)
			w.WriteHeader(302)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			logged, s := &log{}, newSink()
			host := strings.TrimPrefix(server.URL, "http://")
			p := start(t, poll.Options{
				URL: "http://user:" + secret + "@" + host + "/pods?token=" + secret + "#" + secret, Sink: s,
				Header: http.Header{"X-Token": {secret}},
				Log:    slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			location := "http://" + host + "/pods"
			if want := (pod.Source{ID: "url:" + location, Kind: pod.SourceURL, Location: location}); p.Source() != want {
				t.Errorf("source %+v, want %+v", p.Source(), want)
			}
			for _, text := range []string{s.next(t), logged.String()} {
				if text == "" || strings.Contains(text, secret) {
					t.Errorf("a secret, or nothing, in %q", text)
				}
			}
		})
	}
}

func TestAURLThatIsNoneIsNotRepeated(t *testing.T) {
	const secret = "hunter2"
	for _, bad := range []string{
		"", secret, "ftp://h/" + secret, "http://" + secret + ":x/", "http:///" + secret, "http://h/%zz" + secret, "http://user:pa/" + secret + "@h/", "http:opaque" + secret,
	} {
		_, err := poll.New(poll.Options{URL: bad, Log: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, pod.Invalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
