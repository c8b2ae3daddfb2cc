package image

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"podstead.io/podstead/internal/pod"
)

const manifestBody = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[]}`

// fakeRegistry is an HTTP server that speaks as much of the registry protocol as
// a test scripts, and records what it was asked.
type fakeRegistry struct {
	*httptest.Server
	host string

	mu       sync.Mutex
	requests []string
}

func (f *fakeRegistry) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.requests, ", ")
}

type exchange func(w http.ResponseWriter, r *http.Request)

func status(code int, body string) exchange {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// newFakeRegistry answers requests by "METHOD path"; "*" answers the rest.
func newFakeRegistry(t *testing.T, start func(http.Handler) *httptest.Server, script map[string]exchange) *fakeRegistry {
	t.Helper()
	f := &fakeRegistry{}
	f.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Method + " " + r.URL.Path
		f.mu.Lock()
		asked := key
		if user, password, ok := r.BasicAuth(); ok {
			asked += " as " + user + ":" + password
		} else if header := r.Header.Get("Authorization"); header != "" {
			asked += " with " + header
		}
		f.requests = append(f.requests, asked)
		f.mu.Unlock()
		for _, key := range []string{key, "* " + r.URL.Path, "*"} {
			if reply, ok := script[key]; ok {
				reply(w, r)
				return
			}
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(f.Close)
	f.host = f.Listener.Addr().String()
	return f
}

func insecure(host string) string {
	return fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", host)
}

func resolve(t *testing.T, host string) (digest.Digest, error) {
	t.Helper()
	r := NewRegistries(RegistriesConfig{Timeout: 10 * time.Second})
	return r.Resolve(t.Context(), host+"/team/app:1")
}

func withDigest(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Docker-Content-Digest", newDigest.String())
}

func challenge(kind string) exchange {
	return func(w http.ResponseWriter, r *http.Request) {
		header := `Basic realm="test"`
		if kind == "Bearer" {
			header = fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, r.Host)
		}
		w.Header().Set("WWW-Authenticate", header)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
	}
}

func TestRegistryAnswers(t *testing.T) {
	const (
		ping     = "GET /v2/"
		head     = "HEAD /v2/team/app/manifests/1"
		get      = "GET /v2/team/app/manifests/1"
		anything = "*"
		token    = "GET /token"
	)
	ok := status(http.StatusOK, "{}")
	tests := []struct {
		name   string
		script map[string]exchange
		digest digest.Digest
		class  pod.Class
		says   string
	}{
		{name: "digest in the header", script: map[string]exchange{ping: ok, head: withDigest}, digest: newDigest},
		{name: "no digest in the header", script: map[string]exchange{ping: ok, head: ok, get: status(http.StatusOK, manifestBody)},
			digest: digest.FromString(manifestBody)},
		{name: "HEAD not allowed", script: map[string]exchange{ping: ok, head: status(http.StatusMethodNotAllowed, ""), get: status(http.StatusOK, manifestBody)},
			digest: digest.FromString(manifestBody)},
		{name: "token", script: map[string]exchange{ping: challenge("Bearer"), token: status(http.StatusOK, `{"access_token":"t"}`), head: withDigest},
			digest: newDigest},
		{name: "no such image", script: map[string]exchange{ping: ok, head: status(http.StatusNotFound, ""),
			get: status(http.StatusNotFound, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)},
			class: pod.Invalid, says: "MANIFEST_UNKNOWN: manifest unknown"},
		{name: "no such image, in no JSON", script: map[string]exchange{ping: ok, head: status(http.StatusNotFound, ""),
			get: status(http.StatusNotFound, "nope")}, class: pod.Invalid, says: "nope"},
		{name: "denied", script: map[string]exchange{ping: ok, head: status(http.StatusForbidden, ""),
			get: status(http.StatusForbidden, `{"errors":[{"code":"DENIED","message":"requested access is denied"}]}`)},
			class: pod.Invalid, says: "requested access is denied"},
		{name: "credentials asked for", script: map[string]exchange{anything: challenge("Basic")},
			class: pod.Invalid, says: "authentication required"},
		{name: "token refused", script: map[string]exchange{ping: challenge("Bearer"), token: status(http.StatusForbidden, "no access")},
			class: pod.Invalid, says: "no access"},
		{name: "token useless", script: map[string]exchange{token: status(http.StatusOK, `{"token":"t"}`), anything: challenge("Bearer")},
			class: pod.Invalid, says: "authentication required"},
		{name: "token service broken", script: map[string]exchange{ping: challenge("Bearer"), token: status(http.StatusBadGateway, "")},
			class: pod.Unavailable, says: "502"},
		{name: "registry broken", script: map[string]exchange{anything: status(http.StatusServiceUnavailable, "")},
			class: pod.Unavailable, says: "503"},
		{name: "manifest broken", script: map[string]exchange{ping: ok, anything: status(http.StatusInternalServerError, "")},
			class: pod.Unavailable, says: "500"},
		{name: "too many requests", script: map[string]exchange{ping: ok, anything: status(http.StatusTooManyRequests, "slow down")},
			class: pod.Unavailable, says: "slow down"},
		{name: "not a registry", script: map[string]exchange{anything: status(http.StatusNotFound, "no such page")},
			class: pod.Unavailable, says: "no such page"},
		{name: "captive portal", script: map[string]exchange{anything: status(http.StatusOK, "<html>Please log in</html>")},
			class: pod.Unavailable, says: "not an image manifest"},
		{name: "endless manifest", script: map[string]exchange{ping: ok, head: ok, get: status(http.StatusOK, strings.Repeat(" ", maxManifest+1))},
			class: pod.Unavailable, says: "larger than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			registry := newFakeRegistry(t, httptest.NewServer, test.script)
			registriesConf(t, insecure(registry.host))
			got, err := resolve(t, registry.host)
			if got != test.digest || pod.ClassOf(err) != test.class {
				t.Fatalf("digest %q, error %v; want %q and class %q; asked: %s", got, err, test.digest, test.class, registry.seen())
			}
			if err != nil && (!strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), registry.host)) {
				t.Errorf("%q does not name %q and %q", err, registry.host, test.says)
			}
		})
	}
}

// authFile makes credentials for the host the user's own.
func authFile(t *testing.T, host, user, password string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "auth.json")
	encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	if err := os.WriteFile(path, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, encoded), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REGISTRY_AUTH_FILE", path)
}

func TestCredentialsAreSentOnlyWhenAskedFor(t *testing.T) {
	tests := []struct {
		name string
		ping exchange
		want string
	}{
		{"nothing asked for", status(http.StatusOK, ""), "GET /v2/, HEAD /v2/team/app/manifests/1"},
		{"basic", challenge("Basic"), "GET /v2/, HEAD /v2/team/app/manifests/1 as me:secret"},
		{"bearer", challenge("Bearer"), "GET /v2/, GET /token as me:secret, HEAD /v2/team/app/manifests/1 with Bearer t"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			registry := newFakeRegistry(t, httptest.NewServer, map[string]exchange{
				"GET /v2/": test.ping, "GET /token": status(http.StatusOK, `{"token":"t"}`), "*": withDigest,
			})
			registriesConf(t, insecure(registry.host))
			authFile(t, registry.host, "me", "secret")
			if _, err := resolve(t, registry.host); err != nil {
				t.Error(err)
			}
			if got := registry.seen(); got != test.want {
				t.Errorf("asked: %s\nwant:  %s", got, test.want)
			}
		})
	}
}

func TestPlainHTTPNeedsConsent(t *testing.T) {
	registry := newFakeRegistry(t, httptest.NewServer, map[string]exchange{"*": withDigest})
	registriesConf(t, "")
	authFile(t, registry.host, "me", "secret")
	if got, err := resolve(t, registry.host); pod.ClassOf(err) != pod.Unavailable {
		t.Errorf("got %q and %v, want class Unavailable", got, err)
	}
	if seen := registry.seen(); seen != "" {
		t.Errorf("asked over plain HTTP: %s", seen)
	}
}

func TestCertificates(t *testing.T) {
	certificates, hosts := t.TempDir(), certificateDirs
	certificateDirs = []string{certificates}
	t.Cleanup(func() { certificateDirs = hosts })
	startTLS := func(handler http.Handler) *httptest.Server {
		server := httptest.NewUnstartedServer(handler)
		server.Config.ErrorLog = log.New(t.Output(), "", 0)
		server.StartTLS()
		return server
	}
	registry := newFakeRegistry(t, startTLS, map[string]exchange{"*": withDigest})
	registriesConf(t, "")
	if _, err := resolve(t, registry.host); pod.ClassOf(err) != pod.Unavailable {
		t.Errorf("a certificate nobody vouches for gives %v, want class Unavailable", err)
	}
	dir := filepath.Join(certificates, registry.host)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), authority, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := resolve(t, registry.host); got != newDigest {
		t.Errorf("with the authority in certs.d: %q and %v", got, err)
	}
}

func TestSilentRegistry(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	host := silent.Addr().String()
	registriesConf(t, insecure(host))
	r := NewRegistries(RegistriesConfig{Timeout: 300 * time.Millisecond})
	began := time.Now()
	_, err = r.Resolve(t.Context(), host+"/team/app:1")
	took := time.Since(began)
	if pod.ClassOf(err) != pod.Unavailable || !strings.Contains(err.Error(), "no answer within 300ms (--image-registry-timeout)") {
		t.Errorf("got %v, want class Unavailable and the limit", err)
	}
	if took > 2*time.Second {
		t.Errorf("took %s with a limit of 300ms", took)
	}
}
