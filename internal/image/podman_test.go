package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// commandLine is a Runtime that runs podman, as far from the agent's own driver
// as can be: what is tested here must not depend on how that words its errors.
type commandLine struct {
	env   []string
	pulls int
}

func (c *commandLine) podman(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "podman", args...)
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func (c *commandLine) InspectImage(ctx context.Context, name string) (pod.Image, error) {
	out, err := c.podman(ctx, "image", "inspect", "--format", "{{.Id}}{{range .RepoDigests}} {{.}}{{end}}", name)
	if err != nil {
		return pod.Image{}, &pod.Error{Class: pod.NotFound, Op: "inspect image", Object: name, Err: err}
	}
	id, digests, _ := strings.Cut(out, " ")
	return pod.Image{ID: id, Digests: strings.Fields(digests)}, nil
}

func (c *commandLine) PullImage(ctx context.Context, name string) error {
	c.pulls++
	_, err := c.podman(ctx, "pull", "--quiet", name)
	return err
}

func must(t *testing.T, h *podmanhost.Host, args ...string) string {
	t.Helper()
	out, err := h.Podman(args...)
	if err != nil {
		t.Fatalf("podman %v: %v", args, err)
	}
	return strings.TrimSpace(out)
}

// newPuller makes a Puller on the host's Podman, whose registries.conf is the
// agent's as well.
func newPuller(t *testing.T, h *podmanhost.Host) (*Puller, *commandLine) {
	t.Helper()
	for _, variable := range h.Env {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	runtime := &commandLine{env: h.Env}
	p := New(Config{Runtime: runtime, Resolver: NewRegistries(RegistriesConfig{Timeout: 5 * time.Second}), MaxParallelPulls: 2})
	t.Cleanup(p.Close)
	return p, runtime
}

func TestPullsFromARealRegistry(t *testing.T) {
	h := podmanhost.Start(t)
	h.StartRegistry("", "")
	p, runtime := newPuller(t, h)
	app := h.Registry + "/team/app:1"
	must(t, h, "push", "docker.io/library/busybox:latest", app)

	first, err := p.Ensure(t.Context(), app, corev1.PullIfNotPresent)
	if err != nil || !first.Pulled || first.PullTime <= 0 || first.ID == "" {
		t.Fatalf("an absent image: %+v, %v", first, err)
	}
	again, err := p.Ensure(t.Context(), app, corev1.PullAlways)
	if err != nil || again != (pod.ImageResult{ID: first.ID}) || runtime.pulls != 1 {
		t.Errorf("an up-to-date image under Always: %+v, %v, %d pulls; want no pull", again, err, runtime.pulls)
	}
	must(t, h, "push", "docker.io/library/nginx:latest", app)
	kept, err := p.Ensure(t.Context(), app, corev1.PullIfNotPresent)
	if err != nil || kept.ID != first.ID {
		t.Errorf("a stale image under IfNotPresent: %+v, %v", kept, err)
	}
	updated, err := p.Ensure(t.Context(), app, corev1.PullAlways)
	if err != nil || !updated.Pulled || updated.ID == first.ID {
		t.Errorf("a stale image under Always: %+v, %v", updated, err)
	}

	for _, missing := range []string{h.Registry + "/team/app:2", h.Registry + "/team/nothing:1"} {
		_, err = p.Ensure(t.Context(), missing, corev1.PullIfNotPresent)
		if pod.ClassOf(err) != pod.Invalid || !strings.Contains(err.Error(), "UNKNOWN") {
			t.Errorf("%s: %v, want class Invalid and the registry's words", missing, err)
		}
	}
	must(t, h, "tag", first.ID, h.Registry+"/team/app:3")
	if got, err := p.Ensure(t.Context(), h.Registry+"/team/app:3", corev1.PullAlways); pod.ClassOf(err) != pod.Invalid {
		t.Errorf("present but unknown to the registry, under Always: %+v, %v; want class Invalid", got, err)
	}
	if runtime.pulls != 2 {
		t.Errorf("%d pulls, want 2", runtime.pulls)
	}
}

func TestCredentialsOfARealRegistry(t *testing.T) {
	h := podmanhost.Start(t)
	h.StartRegistry("me", "secret")
	p, runtime := newPuller(t, h)
	app := h.Registry + "/team/app:1"
	must(t, h, "push", "--creds", "me:secret", "docker.io/library/busybox:latest", app)

	_, err := p.Ensure(t.Context(), app, corev1.PullIfNotPresent)
	if pod.ClassOf(err) != pod.Invalid || !strings.Contains(err.Error(), "authentication required") {
		t.Errorf("without credentials: %v, want class Invalid and the registry's words", err)
	}
	authFile(t, h.Registry, "me", "wrong")
	if _, err := p.Ensure(t.Context(), app, corev1.PullIfNotPresent); pod.ClassOf(err) != pod.Invalid {
		t.Errorf("with a wrong password: %v, want class Invalid", err)
	}
	if runtime.pulls != 0 {
		t.Errorf("%d pulls of an image that was denied", runtime.pulls)
	}
	authFile(t, h.Registry, "me", "secret")
	if got, err := p.Ensure(t.Context(), app, corev1.PullIfNotPresent); err != nil || !got.Pulled {
		t.Errorf("with credentials: %+v, %v", got, err)
	}
}

func TestOfflineStart(t *testing.T) {
	h := podmanhost.Start(t)
	p, runtime := newPuller(t, h)
	want := must(t, h, "image", "inspect", "--format", "{{.Id}}", nginx)

	began := time.Now()
	got, err := p.Ensure(t.Context(), nginx, corev1.PullAlways)
	if err != nil || got.ID != want || got.Pulled || !strings.Contains(got.Warning, "docker.io at 127.0.0.1:1") {
		t.Errorf("Always, present: %+v, %v; want the present image and a warning", got, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	_, err = p.Ensure(t.Context(), "docker.io/library/absent:latest", corev1.PullIfNotPresent)
	if pod.ClassOf(err) != pod.Unavailable || !strings.Contains(err.Error(), "docker.io at 127.0.0.1:1") {
		t.Errorf("absent: %v, want class Unavailable and the registry", err)
	}
	if runtime.pulls != 0 {
		t.Errorf("%d pulls with the registry away", runtime.pulls)
	}
}
