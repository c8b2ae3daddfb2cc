package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	"github.com/opencontainers/go-digest"

	"podstead.io/podstead/internal/pod"
)

const mirrored = `
[[registry]]
prefix = "docker.io"
location = "docker.io"
[[registry.mirror]]
location = "mirror.example/hub"
insecure = true
[[registry]]
location = "blocked.example"
blocked = true
`

// registriesConf makes the test's registries.conf the host's.
func registriesConf(t *testing.T, content string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_REGISTRIES_CONF", path)
}

// script answers by host and records who was asked.
type script struct {
	byHost map[string]answer
	asked  []string
}

func (s *script) ask(ctx context.Context, _ *types.SystemContext, source sysregistriesv2.PullSource) (digest.Digest, error) {
	s.asked = append(s.asked, source.Reference.String())
	next := s.byHost[reference.Domain(source.Reference)]
	select {
	case <-time.After(next.after):
		return next.digest, next.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

var (
	refused = answer{err: errors.New("connection refused")}
	hangs   = answer{after: time.Hour}
	unknown = answer{err: &pod.Error{Class: pod.Invalid, Op: "find", Err: errors.New("MANIFEST_UNKNOWN")}}
)

func TestResolveTriesMirrorsThenTheRegistry(t *testing.T) {
	const hub, mirror = "docker.io", "mirror.example"
	tests := []struct {
		name   string
		image  string
		byHost map[string]answer
		digest digest.Digest
		class  pod.Class
		asked  []string
		says   []string
		took   time.Duration
	}{
		{name: "the mirror has it", byHost: map[string]answer{mirror: serves}, digest: newDigest,
			asked: []string{"mirror.example/hub/library/nginx:latest"}},
		{name: "only the registry has it", byHost: map[string]answer{mirror: unknown, hub: serves}, digest: newDigest,
			asked: []string{"mirror.example/hub/library/nginx:latest", nginx}},
		{name: "the registry says no", byHost: map[string]answer{mirror: refused, hub: unknown}, class: pod.Invalid,
			says: []string{"MANIFEST_UNKNOWN", "mirror.example: connection refused"}},
		{name: "only the mirror says no", byHost: map[string]answer{mirror: unknown, hub: refused}, class: pod.Unavailable,
			says: []string{"docker.io: connection refused", "MANIFEST_UNKNOWN"}},
		{name: "a hanging mirror leaves time for the registry", byHost: map[string]answer{mirror: hangs, hub: serves}, digest: newDigest,
			took: 2500 * time.Millisecond},
		{name: "both hang", byHost: map[string]answer{mirror: hangs, hub: hangs}, class: pod.Unavailable,
			took: 5 * time.Second, says: []string{"docker.io: no answer within 2.5s (--image-registry-timeout)"}},
		{name: "no mirror", image: "quay.io/team/app:1", byHost: map[string]answer{"quay.io": hangs}, class: pod.Unavailable,
			took: 5 * time.Second, says: []string{"quay.io: no answer within 5s"}},
		{name: "blocked", image: "blocked.example/app:1", class: pod.Invalid, says: []string{"blocked in registries.conf"}},
		{name: "a short name", image: "nginx", class: pod.Invalid, says: []string{"nginx"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			registriesConf(t, mirrored)
			synctest.Test(t, func(t *testing.T) {
				script := &script{byHost: test.byHost}
				r := NewRegistries(RegistriesConfig{Timeout: 5 * time.Second})
				r.ask = script.ask
				image := test.image
				if image == "" {
					image = nginx
				}
				began := time.Now()
				got, err := r.Resolve(t.Context(), image)
				if got != test.digest || pod.ClassOf(err) != test.class {
					t.Errorf("digest %q, error %v; want %q and class %q", got, err, test.digest, test.class)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %s, want %s", took, test.took)
				}
				for _, part := range test.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q does not say %q", err, part)
					}
				}
				if test.asked != nil && strings.Join(script.asked, " ") != strings.Join(test.asked, " ") {
					t.Errorf("asked %v, want %v", script.asked, test.asked)
				}
			})
		})
	}
}

func TestOutagesAreRemembered(t *testing.T) {
	registriesConf(t, "")
	synctest.Test(t, func(t *testing.T) {
		script := &script{byHost: map[string]answer{"docker.io": hangs, "quay.io": serves}}
		r := NewRegistries(RegistriesConfig{Timeout: 5 * time.Second, OutageMemory: 30 * time.Second})
		r.ask = script.ask
		resolve := func(image string, class pod.Class, within time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := r.Resolve(t.Context(), image)
			if pod.ClassOf(err) != class || time.Since(began) != within {
				t.Errorf("%s: %v after %s, want class %q after %s", image, err, time.Since(began), class, within)
			}
		}
		resolve(nginx, pod.Unavailable, 5*time.Second)
		resolve(busybox, pod.Unavailable, 0)
		resolve("quay.io/team/app:1", "", 0)
		time.Sleep(30 * time.Second)
		resolve(busybox, pod.Unavailable, 5*time.Second)
		time.Sleep(30 * time.Second)
		script.byHost["docker.io"] = unknown
		resolve(nginx, pod.Invalid, 0)
		script.byHost["docker.io"] = serves
		resolve(nginx, "", 0)
	})
}

func TestGivingUpIsNotAnOutage(t *testing.T) {
	registriesConf(t, "")
	synctest.Test(t, func(t *testing.T) {
		script := &script{byHost: map[string]answer{"docker.io": hangs}}
		r := NewRegistries(RegistriesConfig{Timeout: 5 * time.Second, OutageMemory: 30 * time.Second})
		r.ask = script.ask
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Resolve(ctx, nginx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		script.byHost["docker.io"] = serves
		if _, err := r.Resolve(t.Context(), nginx); err != nil {
			t.Errorf("the registry is taken to be down: %v", err)
		}
	})
}

func TestAnEditOfRegistriesConfWorksAtOnce(t *testing.T) {
	registriesConf(t, "")
	script := &script{byHost: map[string]answer{"docker.io": serves, "mirror.example": serves}}
	r := NewRegistries(RegistriesConfig{Timeout: 5 * time.Second, OutageMemory: 30 * time.Second})
	r.ask = script.ask
	if _, err := r.Resolve(t.Context(), nginx); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("CONTAINERS_REGISTRIES_CONF"), []byte(mirrored), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(t.Context(), nginx); err != nil {
		t.Fatal(err)
	}
	if want := []string{nginx, "mirror.example/hub/library/nginx:latest"}; strings.Join(script.asked, " ") != strings.Join(want, " ") {
		t.Errorf("asked %v, want %v", script.asked, want)
	}
	if err := os.WriteFile(os.Getenv("CONTAINERS_REGISTRIES_CONF"), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(t.Context(), nginx); pod.ClassOf(err) != pod.Unavailable {
		t.Errorf("a broken registries.conf gives %v, want class Unavailable", err)
	}
}
