package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	"github.com/opencontainers/go-digest"

	"podstead.io/podstead/internal/pod"
)

// DefaultOutageMemory is how long a registry that gave no answer is not asked
// again. It is about how long a machine takes to find its network after start.
const DefaultOutageMemory = 30 * time.Second

// RegistriesConfig is what Registries needs.
type RegistriesConfig struct {
	// Timeout limits one Resolve, mirrors included.
	Timeout time.Duration
	// OutageMemory is how long a registry that gave no answer is taken to be
	// out of reach without asking it; 0 is DefaultOutageMemory.
	OutageMemory time.Duration
}

// Registries resolves names the way the host's containers tools do: mirrors,
// rewritten, blocked and insecure registries come from registries.conf (or
// CONTAINERS_REGISTRIES_CONF), credentials from the auth.json files and
// credential helpers of containers-auth.json(5) (or REGISTRY_AUTH_FILE), and
// certificates from certs.d. All are read anew for each name, so an edit works
// at once. Short names and search registries are never used.
type Registries struct {
	timeout time.Duration
	outages outages
	// ask asks one registry; tests replace it.
	ask func(ctx context.Context, sys *types.SystemContext, source sysregistriesv2.PullSource) (digest.Digest, error)
}

// NewRegistries makes a Registries.
func NewRegistries(c RegistriesConfig) *Registries {
	memory := c.OutageMemory
	if memory == 0 {
		memory = DefaultOutageMemory
	}
	return &Registries{
		timeout: c.Timeout,
		outages: outages{memory: memory, byHost: map[string]outage{}},
		ask:     askRegistry,
	}
}

// Resolve implements [Resolver]. Every mirror is tried before the registry
// itself, each with its share of the time that is left; the registry's own
// answer decides the class of the error.
func (r *Registries) Resolve(ctx context.Context, name string) (digest.Digest, error) {
	ref, err := reference.ParseNamed(name)
	if err != nil {
		return "", &pod.Error{Class: pod.Invalid, Op: "read image name", Object: name, Err: err}
	}
	sys := systemContext()
	sources, err := pullSources(sys, reference.TagNameOnly(ref))
	if err != nil {
		return "", err
	}
	deadline := time.Now().Add(r.timeout)
	var failed []error
	for i, source := range sources {
		share := time.Until(deadline) / time.Duration(len(sources)-i)
		found, err := r.try(ctx, sys, source, share)
		err = unavailable(reference.Domain(ref), reference.Domain(source.Reference), err)
		if err == nil {
			return found, nil
		}
		failed = append(failed, err)
	}
	return "", combine(failed)
}

// try asks one registry unless it was out of reach a moment ago. Its error has no
// class when there was no answer.
func (r *Registries) try(ctx context.Context, sys *types.SystemContext, source sysregistriesv2.PullSource, limit time.Duration) (digest.Digest, error) {
	host := reference.Domain(source.Reference)
	if err := r.outages.recall(host, time.Now()); err != nil {
		return "", err
	}
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found, err := r.ask(asking, sys, source)
	switch {
	case ctx.Err() != nil:
		// The caller gave up, which says nothing about the registry.
		return "", context.Cause(ctx)
	case err == nil || errors.Is(err, pod.Invalid):
		r.outages.over(host)
		return found, err
	case asking.Err() != nil:
		err = fmt.Errorf("no answer within %s (--image-registry-timeout)", limit.Round(time.Millisecond))
	}
	r.outages.began(host, err, time.Now())
	return "", err
}

// pullSources lists where the image may come from, in the order to try.
func pullSources(sys *types.SystemContext, ref reference.Named) ([]sysregistriesv2.PullSource, error) {
	sysregistriesv2.InvalidateCache()
	registry, err := sysregistriesv2.FindRegistry(sys, ref.Name())
	switch {
	case err != nil:
		return nil, &pod.Error{Class: pod.Unavailable, Op: "read registries.conf for", Object: ref.Name(), Err: err}
	case registry == nil:
		return []sysregistriesv2.PullSource{{Reference: ref}}, nil
	case registry.Blocked:
		return nil, &pod.Error{Class: pod.Invalid, Op: "use registry", Object: registry.Prefix,
			Err: errors.New("it is blocked in registries.conf")}
	}
	sources, err := registry.PullSourcesFromReference(ref)
	if err != nil {
		return nil, &pod.Error{Class: pod.Unavailable, Op: "rewrite by registries.conf", Object: ref.Name(), Err: err}
	}
	return sources, nil
}

// systemContext points at the host's configuration, with the environment
// variables that Podman takes.
func systemContext() *types.SystemContext {
	return &types.SystemContext{
		SystemRegistriesConfPath: os.Getenv("CONTAINERS_REGISTRIES_CONF"),
		AuthFilePath:             os.Getenv("REGISTRY_AUTH_FILE"),
	}
}

// unavailable gives the class to an error that says nothing about the image, and
// names the registry and, where that is elsewhere, the host that was asked.
func unavailable(registry, host string, err error) error {
	if err == nil || errors.Is(err, pod.Invalid) {
		return err
	}
	if host != registry {
		registry += " at " + host
	}
	return &pod.Error{Class: pod.Unavailable, Op: "reach registry", Object: registry, Err: err}
}

// combine reports why no source had the image. The last is the registry itself,
// and has the say.
func combine(failed []error) error {
	mirrors, registry := failed[:len(failed)-1], failed[len(failed)-1]
	if len(mirrors) == 0 {
		return registry
	}
	said := make([]string, len(mirrors))
	for i, err := range mirrors {
		said[i] = err.Error()
	}
	return fmt.Errorf("%w (mirrors: %s)", registry, strings.Join(said, "; "))
}
