package poll

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"podstead.io/podstead/internal/pod"
)

// maxRedirects is how many redirects are followed for one answer.
const maxRedirects = 5

// maxHeaderBytes bounds the head of an answer.
const maxHeaderBytes = 64 << 10

// fetcher asks for the manifests, and remembers enough to tell whether the
// answer is another one than before.
type fetcher struct {
	target   target
	timeout  time.Duration
	maxBytes int // of a body, unpacked
	// transport is used without a client around it, which would pass headers and,
	// as Referer, the query on to whatever host it is redirected to.
	transport http.RoundTripper
	// validators make the next request conditional.
	validators validators
	// content is the digest of the last answer; nil: none is remembered.
	content *[sha256.Size]byte
}

func newFetcher(t target, o Options) *fetcher {
	if o.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.DisableCompression = true // unpacked here, whether asked for or not
		transport.MaxResponseHeaderBytes = maxHeaderBytes
		o.Transport = transport
	}
	return &fetcher{target: t, timeout: o.Timeout, maxBytes: o.Parser.Limits.UnitBytes, transport: o.Transport}
}

func (f *fetcher) close() {
	if t, ok := f.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// forget makes the next answer a new one, whatever it is.
func (f *fetcher) forget() { f.validators, f.content = validators{}, nil }

// fetch returns the body of the answer, nil if it is the same as the last time.
// Errors are of class Unavailable, in the same words for the same reason.
func (f *fetcher) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	at, body, err := f.follow(ctx)
	if err == nil {
		return body, nil
	}
	if at.Host != f.target.url.Host {
		err = fmt.Errorf("redirected to %s: %w", at.Host, err)
	}
	return nil, &pod.Error{Class: pod.Unavailable, Op: "read", Object: f.target.location, Err: err}
}

// follow asks the target, and whom it refers to, until there is an answer that
// is no redirect. It returns where it got to as well.
func (f *fetcher) follow(ctx context.Context) (at *url.URL, body []byte, err error) {
	at, trusted := f.target.url, true
	for range maxRedirects + 1 {
		// Once outside, the way back in is someone else's choice.
		trusted = trusted && f.target.trusts(at)
		resp, err := f.transport.RoundTrip(f.request(ctx, at, trusted))
		if err != nil {
			return at, nil, f.explain(at, err)
		}
		if !redirects(resp.StatusCode) {
			body, err := f.take(at, resp)
			resp.Body.Close()
			return at, body, err
		}
		resp.Body.Close()
		next, err := redirect(at, resp.Header.Get("Location"))
		if err != nil {
			return at, nil, err
		}
		at = next
	}
	return at, nil, faultf("it redirects more than %d times", maxRedirects)
}

// take reads the answer, if there is one to read.
func (f *fetcher) take(at *url.URL, resp *http.Response) ([]byte, error) {
	if resp.StatusCode == http.StatusNotModified && f.validators.of(at) {
		return nil, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, statusFault(resp.StatusCode)
	}
	body, err := f.body(resp)
	if err != nil {
		return nil, f.explain(at, err)
	}
	f.validators = validatorsOf(at, resp.Header)
	content := sha256.Sum256(body)
	if f.content != nil && *f.content == content {
		return nil, nil
	}
	f.content = &content
	return body, nil
}

// request is built anew for each hop, so that nothing goes on to another host
// by itself.
func (f *fetcher) request(ctx context.Context, at *url.URL, trusted bool) *http.Request {
	req := (&http.Request{Method: http.MethodGet, URL: at, Host: at.Host, Header: http.Header{}}).WithContext(ctx)
	req.Header.Set("User-Agent", "podstead")
	if trusted {
		maps.Copy(req.Header, f.target.header)
		if f.target.host != "" {
			req.Host = f.target.host
		}
	}
	req.Header.Set("Accept-Encoding", "gzip")
	if f.validators.of(at) {
		f.validators.set(req.Header)
	}
	return req
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// redirect is where the answer of a URL refers to.
func redirect(from *url.URL, location string) (*url.URL, error) {
	next, err := from.Parse(location)
	switch {
	case location == "" || err != nil || next.Hostname() == "" || !polled(next):
		return nil, fault("it redirects to something that is not an http or https URL")
	case from.Scheme == "https" && next.Scheme == "http":
		return nil, fault("it redirects from https to plain http, where anyone on the way could change manifests")
	}
	next.User = nil // whoever redirects does not choose what we log in as
	return next, nil
}

// body reads the whole of an answer, unpacked.
func (f *fetcher) body(resp *http.Response) ([]byte, error) {
	var in io.Reader = resp.Body
	switch resp.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(resp.Body)
		if err != nil {
			return nil, err
		}
		in = unpacked
	default:
		return nil, fault("its answer is packed in a way that was not asked for; only gzip is understood")
	}
	body, err := io.ReadAll(io.LimitReader(in, int64(f.maxBytes)+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > f.maxBytes:
		return nil, faultf("its answer is larger than %d bytes; split it up", f.maxBytes)
	case len(body) == 0:
		return nil, fault("its answer is empty; to want no pods, answer with an empty PodList")
	}
	return body, nil
}

// validators are what a server gave to tell its next answer by.
type validators struct {
	url          string // which they are of, for redirects
	etag         string
	lastModified string
}

// validatorsOf takes Last-Modified alone only if the answer was older than a
// second: it could have changed within the same one (RFC 9110, 8.8.2.2).
func validatorsOf(at *url.URL, h http.Header) validators {
	v := validators{url: at.String(), etag: h.Get("ETag")}
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return v
	}
	date, err := http.ParseTime(h.Get("Date"))
	if v.etag != "" || err == nil && date.Sub(modified) > time.Second {
		v.lastModified = h.Get("Last-Modified")
	}
	return v
}

// of reports whether there are any for a URL.
func (v validators) of(at *url.URL) bool {
	return v.etag+v.lastModified != "" && v.url == at.String()
}

// set makes a request conditional.
func (v validators) set(h http.Header) {
	if v.etag != "" {
		h.Set("If-None-Match", v.etag)
	}
	if v.lastModified != "" {
		h.Set("If-Modified-Since", v.lastModified)
	}
}
