package poll

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"podstead.io/podstead/internal/pod"
)

// maxRedirects is how many redirects one poll follows.
const maxRedirects = 5

// validators let a server answer that nothing has changed (RFC 9110, 8.8).
type validators struct{ etag, lastModified string }

// answer is a good response.
type answer struct {
	unchanged bool // and nothing else is set
	body      []byte
	validators
}

// fetcher makes the requests.
type fetcher struct {
	url      *url.URL
	header   http.Header
	location string // the URL without its secrets
	timeout  time.Duration
	limit    int
	// transport is used without a client around it, which would send the header,
	// and as Referer the query, to whatever host it is redirected to.
	transport http.RoundTripper
}

func newFetcher(o Options) (*fetcher, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// Neither the URL nor the parser's message is shown: both may have secrets.
		return nil, &pod.Error{Class: pod.Invalid, Op: "read the manifest URL", Err: errors.New("it must be http://… or https://…")}
	}
	header := o.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if u.User != nil && header.Get("Authorization") == "" {
		password, _ := u.User.Password()
		credentials := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		header.Set("Authorization", "Basic "+credentials)
	}
	u.User, u.Fragment = nil, ""
	location := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	transport := o.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConns, own.IdleConnTimeout = 1, time.Minute
		own.MaxResponseHeaderBytes = 64 << 10
		transport = own
	}
	return &fetcher{
		url: u, header: header, location: location.String(),
		timeout: o.Timeout, limit: o.Parser.Limits.UnitBytes, transport: transport,
	}, nil
}

func (f *fetcher) close() {
	if t, ok := f.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// fetch gets the manifest, following redirects. Its errors hold no secret.
func (f *fetcher) fetch(ctx context.Context, v validators) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	target, trusted := f.url, true
	for range 1 + maxRedirects {
		a, next, err := f.get(ctx, target, trusted, v)
		if err != nil || next == nil {
			return a, err
		}
		if target.Scheme == "https" && next.Scheme != "https" {
			return answer{}, f.failure(pod.Invalid, errors.New("it redirects from https to "+next.Scheme))
		}
		// A host once left is not trusted again: what leads back to it was not
		// its own doing.
		trusted = trusted && next.Scheme == f.url.Scheme && next.Host == f.url.Host
		target = next
	}
	return answer{}, f.failure(pod.Invalid, fmt.Errorf("it redirects more than %d times", maxRedirects))
}

// get makes one request. It returns where to go on when that is a redirect.
func (f *fetcher) get(ctx context.Context, target *url.URL, trusted bool, v validators) (answer, *url.URL, error) {
	response, err := f.transport.RoundTrip(f.request(ctx, target, trusted, v))
	if err != nil {
		return answer{}, nil, f.unreachable(err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		a, err := f.read(response)
		if !trusted {
			a.validators = validators{} // they are not the URL's own
		}
		return a, nil, err
	case http.StatusNotModified:
		if !trusted || v == (validators{}) {
			return answer{}, nil, f.failure(pod.Unavailable, errors.New("it answers that nothing has changed, and was not asked"))
		}
		return answer{unchanged: true}, nil, nil
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		next, err := target.Parse(response.Header.Get("Location"))
		if err != nil || response.Header.Get("Location") == "" || next.Host == "" || next.Scheme != "http" && next.Scheme != "https" {
			return answer{}, nil, f.failure(pod.Invalid, errors.New("it redirects to what is no URL"))
		}
		next.User = nil
		return answer{}, next, nil
	default:
		class := pod.Unavailable
		if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone {
			class = pod.NotFound
		}
		return answer{}, nil, f.failure(class, fmt.Errorf("it answers %d %s", response.StatusCode, http.StatusText(response.StatusCode)))
	}
}

func (f *fetcher) request(ctx context.Context, target *url.URL, trusted bool, v validators) *http.Request {
	request := (&http.Request{Method: http.MethodGet, URL: target, Header: http.Header{}}).WithContext(ctx)
	if trusted {
		request.Header = f.header.Clone()
		if v.etag != "" {
			request.Header.Set("If-None-Match", v.etag)
		}
		if v.lastModified != "" {
			request.Header.Set("If-Modified-Since", v.lastModified)
		}
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "podstead")
	}
	return request
}

// read takes the body, decompressed, as far as it may be large.
func (f *fetcher) read(response *http.Response) (answer, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(f.limit)+1))
	switch {
	case err != nil:
		return answer{}, f.unreachable(err)
	case len(body) > f.limit:
		return answer{}, f.failure(pod.Invalid, fmt.Errorf("the answer is larger than %d bytes", f.limit))
	case len(body) == 0:
		return answer{}, f.failure(pod.Unavailable, errors.New("the answer is empty; to remove all pods, answer with an empty PodList"))
	}
	return answer{body: body, validators: validators{
		etag: response.Header.Get("ETag"), lastModified: response.Header.Get("Last-Modified"),
	}}, nil
}

func (f *fetcher) unreachable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", f.timeout, context.DeadlineExceeded)
	}
	return f.failure(pod.Unavailable, err)
}

func (f *fetcher) failure(class pod.Class, err error) error {
	return &pod.Error{Class: class, Op: "fetch manifests from", Object: f.location, Err: err}
}
