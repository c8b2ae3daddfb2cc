package image

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/manifest"
	authconfig "github.com/containers/image/v5/pkg/docker/config"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/pkg/tlsclientconfig"
	"github.com/containers/image/v5/types"
	"github.com/containers/storage/pkg/homedir"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"

	"podstead.io/podstead/internal/pod"
)

// maxManifest is as much of a manifest as is read, the limit that the
// distribution specification asks registries to accept.
const maxManifest = 4 << 20

// certificateDirs hold a directory per registry, the first that exists is used;
// see containers-certs.d(5).
var certificateDirs = []string{"/etc/containers/certs.d", "/etc/docker/certs.d"}

// askRegistry asks one registry for the digest of a manifest. Class Invalid is
// the registry's own answer about the image (401, 403, 404); whatever else goes
// wrong has no class.
//
// A certificate that can't be verified is no answer either: a captive portal has
// one, and so has every registry while the clock of a machine without a battery
// is wrong.
func askRegistry(ctx context.Context, sys *types.SystemContext, source sysregistriesv2.PullSource) (digest.Digest, error) {
	credentials, err := authconfig.GetCredentialsForRef(sys, source.Reference)
	if err != nil {
		return "", fmt.Errorf("read credentials: %w", err)
	}
	base, err := newTransport(source)
	if err != nil {
		return "", err
	}
	defer base.CloseIdleConnections()
	host := apiHost(reference.Domain(source.Reference))
	options := []name.Option{}
	if source.Endpoint.Insecure {
		options = append(options, name.Insecure)
	}
	registry, err := name.NewRegistry(host, options...)
	if err != nil {
		return "", err
	}
	a := &asker{source: source, registry: registry, plain: onlyIf{source.Endpoint.Insecure, base}}
	if err := a.authenticate(ctx, credentials); err != nil {
		return "", err
	}
	return a.manifestDigest(ctx)
}

// asker talks to one registry about one manifest.
type asker struct {
	source   sysregistriesv2.PullSource
	registry name.Registry
	plain    http.RoundTripper
	// What authenticate found out.
	scheme string
	authed http.RoundTripper
}

// authenticate finds out how the registry wants to be spoken to. Credentials are
// only sent when they are asked for.
func (a *asker) authenticate(ctx context.Context, credentials types.DockerAuthConfig) error {
	challenge, err := transport.Ping(ctx, a.registry, a.plain)
	if err != nil {
		// Whatever this is, it is not about the image.
		return err
	}
	a.scheme = "https"
	if challenge.Insecure {
		a.scheme = "http"
	}
	auth := authn.Anonymous
	if credentials != (types.DockerAuthConfig{}) && challenge.Scheme != "" {
		auth = authn.FromConfig(authn.AuthConfig{
			Username: credentials.Username, Password: credentials.Password, IdentityToken: credentials.IdentityToken,
		})
	}
	var token *transport.Token
	if strings.EqualFold(challenge.Scheme, "bearer") {
		scope := "repository:" + reference.Path(a.source.Reference) + ":pull"
		token, err = transport.Exchange(ctx, a.registry, auth, a.plain, []string{scope}, challenge)
		if err != nil {
			return a.refusal(err, http.StatusUnauthorized, http.StatusForbidden)
		}
		if token.Token == "" {
			token.Token = token.AccessToken
		}
	}
	a.authed, err = transport.FromToken(a.registry, auth, a.plain, challenge, token)
	return err
}

// manifestDigest asks for the headers of the manifest, which registries do not
// count as a pull. Where that is not enough, the whole manifest is asked for: a
// refusal has its reason in the body, and some registries give no digest header.
func (a *asker) manifestDigest(ctx context.Context) (digest.Digest, error) {
	head, err := a.request(ctx, http.MethodHead)
	if err != nil {
		return "", a.refusal(err, http.StatusUnauthorized, http.StatusForbidden)
	}
	_ = head.Body.Close() // a HEAD has no body
	if found, err := digest.Parse(head.Header.Get("Docker-Content-Digest")); err == nil && head.StatusCode == http.StatusOK {
		return found, nil
	}
	get, err := a.request(ctx, http.MethodGet)
	if err != nil {
		return "", a.refusal(err, http.StatusUnauthorized, http.StatusForbidden)
	}
	defer func() { _ = get.Body.Close() }() // nothing is written
	get.Body = io.NopCloser(io.LimitReader(get.Body, maxManifest+1))
	if err := transport.CheckError(get, http.StatusOK); err != nil {
		return "", a.refusal(err, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound)
	}
	body, err := io.ReadAll(get.Body)
	switch {
	case err != nil:
		return "", err
	case len(body) > maxManifest:
		return "", fmt.Errorf("the manifest is larger than %d bytes", maxManifest)
	case manifest.GuessMIMEType(body) == "":
		// A captive portal answers anything with a page.
		return "", errors.New("the answer is not an image manifest")
	}
	return manifest.Digest(body)
}

func (a *asker) request(ctx context.Context, method string) (*http.Response, error) {
	target := url.URL{
		Scheme: a.scheme,
		Host:   a.registry.RegistryStr(),
		Path:   "/v2/" + reference.Path(a.source.Reference) + "/manifests/" + tagOrDigest(a.source.Reference),
	}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header["Accept"] = manifest.DefaultRequestedManifestMIMETypes
	return (&http.Client{Transport: a.authed}).Do(request)
}

// refusal makes err class Invalid when it is an answer with one of the statuses.
func (a *asker) refusal(err error, statuses ...int) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return err
	}
	for _, status := range statuses {
		if answer.StatusCode == status {
			return &pod.Error{Class: pod.Invalid, Op: "find " + a.source.Reference.String() + " in registry",
				Object: reference.Domain(a.source.Reference), Err: answer}
		}
	}
	return err
}

func tagOrDigest(ref reference.Named) string {
	switch ref := ref.(type) {
	case reference.Canonical:
		return ref.Digest().String()
	case reference.Tagged:
		return ref.Tag()
	default:
		return "latest"
	}
}

// apiHost is where the registry's API is: Docker Hub's is not under its name.
func apiHost(domain string) string {
	if domain == "docker.io" {
		return "registry-1.docker.io"
	}
	return domain
}

// newTransport connects with the certificates that the host has for the
// registry.
func newTransport(source sysregistriesv2.PullSource) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: source.Endpoint.Insecure}
	for _, dir := range append([]string{filepath.Join(homedir.Get(), ".config/containers/certs.d")}, certificateDirs...) {
		dir = filepath.Join(dir, reference.Domain(source.Reference))
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := tlsclientconfig.SetupCertificates(dir, config); err != nil {
			return nil, fmt.Errorf("read certificates in %s: %w", dir, err)
		}
		break
	}
	t := tlsclientconfig.NewTransport()
	t.TLSClientConfig = config
	return t, nil
}

// onlyIf lets plain HTTP through only where registries.conf calls the registry
// insecure. The library tries it for every private and loopback address, and
// would send credentials that way.
type onlyIf struct {
	insecure bool
	next     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t onlyIf) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !t.insecure {
		return nil, fmt.Errorf("plain HTTP to %s: the registry is not marked insecure in registries.conf", request.URL.Host)
	}
	return t.next.RoundTrip(request)
}
