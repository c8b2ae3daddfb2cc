package poll

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"podstead.io/podstead/internal/pod"
)

// target is the URL to be polled, with its secrets apart.
type target struct {
	url      *url.URL // without user information and fragment
	header   http.Header
	host     string // for the Host header; empty: the URL's
	location string // for people: without query either
}

// parseTarget does not repeat what it was given: any part may be secret.
func parseTarget(raw string, header http.Header) (target, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || !polled(u) {
		return target{}, &pod.Error{
			Class: pod.Invalid, Op: "read manifest URL",
			Err: errors.New("it is not one of scheme http or https; give one such as https://example.com/pods.yaml"),
		}
	}
	t := target{header: header.Clone(), host: header.Get("Host")}
	if t.header == nil {
		t.header = http.Header{}
	}
	if u.User != nil && t.header.Get("Authorization") == "" {
		password, _ := u.User.Password()
		t.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	t.url = u
	public := *u
	public.RawQuery, public.ForceQuery = "", false
	t.location = public.String()
	return t, nil
}

// polled reports whether the scheme is one that can be polled.
func polled(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }

// trusts reports whether the target's headers may go to u: to the same host and
// port over the same scheme, or from plain HTTP to HTTPS on the usual ports.
func (t target) trusts(u *url.URL) bool {
	if !strings.EqualFold(t.url.Hostname(), u.Hostname()) {
		return false
	}
	from, to := t.url.Scheme+":"+port(t.url), u.Scheme+":"+port(u)
	return from == to || from == "http:80" && to == "https:443"
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
