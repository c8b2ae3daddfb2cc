package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/pod"
)

// sandboxGrace is how long a pause process is given; it obeys at once.
const sandboxGrace = 5 * time.Second

// startErrorCode is the exit code of a container whose process could not be
// started, as containerd reports it.
const startErrorCode = 128

func (r *run) ensureImage(ctx context.Context, a lifecycle.Action) error {
	_, c := r.desiredContainer(a.Container)
	name, err := pod.NormalizeImage(c.Image)
	if err != nil {
		return err
	}
	res, err := r.image(ctx, name, c)
	if err != nil {
		return err
	}
	switch {
	case res.Pulled:
		r.event(normal(a.Container, "Pulled", fmt.Sprintf("Successfully pulled image %q in %s", c.Image, res.PullTime.Round(time.Millisecond))))
	case res.Warning != "":
		r.event(warning(a.Container, "RegistryUnavailable", res.Warning))
	default:
		r.event(normal(a.Container, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.Image)))
	}
	r.mu.Lock()
	r.images[a.Container] = res.ID
	r.mu.Unlock()
	return nil
}

// image trusts what was observed where the policy asks no more than that the
// image is present. An image that was removed behind the agent's back fails the
// creation; the try after that asks.
func (r *run) image(ctx context.Context, name string, c *corev1.Container) (pod.ImageResult, error) {
	failed := lifecycle.FindBackoff(r.snap.Desired.Backoffs, c.Name, pod.BackoffCreate).Failures > 0
	if id := r.snap.Observed.Images[c.Image]; id != "" && c.ImagePullPolicy != corev1.PullAlways && !failed {
		return pod.ImageResult{ID: id}, nil
	}
	return r.l.o.Images.Ensure(ctx, name, c.ImagePullPolicy)
}

func (r *run) prepareVolumes(ctx context.Context) error {
	paths, err := r.l.o.Volumes.Ensure(ctx, r.snap.Desired.Pod)
	r.mu.Lock()
	r.volumes = paths
	r.mu.Unlock()
	return err
}

func (r *run) createSandbox(ctx context.Context, a lifecycle.Action) error {
	b, err := r.l.o.Runtime.CreateSandbox(ctx, sandboxSpec(r.l.o.Node, r.snap.Desired, a.Attempt))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.sandboxID = b.ID
	r.mu.Unlock()
	r.observed(pod.Facts{Sandboxes: []pod.Sandbox{b}})
	return nil
}

func (r *run) startSandbox(ctx context.Context, a lifecycle.Action) error {
	r.mu.Lock()
	id := cmp.Or(a.ID, r.sandboxID)
	r.mu.Unlock()
	if err := r.l.o.Runtime.StartSandbox(ctx, id); err != nil {
		return r.lost(err, pod.Facts{GoneSandboxes: []pod.Gone{{ID: id}}})
	}
	return nil
}

// inspectSandbox asks for the addresses of a sandbox that was just started. No
// start of a container waits for it.
func (r *run) inspectSandbox(ctx context.Context, a lifecycle.Action) {
	r.mu.Lock()
	id := cmp.Or(a.ID, r.sandboxID)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.l.o.CallTimeout)
	defer cancel()
	b, err := r.l.o.Runtime.InspectSandbox(ctx, id)
	switch {
	case err != nil:
		err = r.lost(err, pod.Facts{GoneSandboxes: []pod.Gone{{ID: id}}})
	default:
		r.observed(pod.Facts{Sandboxes: []pod.Sandbox{b}})
		if b.State.Live() {
			return
		}
		err = broken(a.Op, b.Name, b.State)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.succeeded = slices.DeleteFunc(r.succeeded, func(s lifecycle.Action) bool { return s.Op == a.Op })
	if !errors.Is(err, errSurprised) {
		r.failures = append(r.failures, failure{action: a, err: err})
	}
}

// broken is the failure of a call that reported success: it must not be
// repeated at once.
func broken(op lifecycle.Op, name string, s pod.RunState) error {
	return &pod.Error{Class: pod.Internal, Op: string(op), Object: name, Err: fmt.Errorf("the runtime reports success, and yet it is %s", s)}
}

// lost records that what was to be acted on is not there any more: the next plan
// does without it, at once, since nothing has failed.
func (r *run) lost(err error, f pod.Facts) error {
	if errors.Is(err, pod.NotFound) {
		r.observed(f)
		return errSurprised
	}
	return err
}

func (r *run) stopSandbox(ctx context.Context, a lifecycle.Action) error {
	i := slices.IndexFunc(r.snap.Observed.Sandboxes, func(b pod.Sandbox) bool { return b.InfraID == a.ID })
	b := r.snap.Observed.Sandboxes[i]
	ended, err := r.l.o.Runtime.StopContainer(ctx, a.ID, sandboxGrace)
	switch {
	case errors.Is(err, pod.NotFound):
		r.observed(pod.Facts{GoneSandboxes: []pod.Gone{{ID: b.ID}}})
		return nil
	case err != nil:
		return err
	case ended.State.Live():
		return broken(a.Op, b.Name, ended.State)
	}
	b.State, b.ExitedAt, b.IPs = pod.RunExited, ended.FinishedAt, nil
	r.observed(pod.Facts{Sandboxes: []pod.Sandbox{b}})
	return nil
}

func (r *run) removeSandbox(ctx context.Context, a lifecycle.Action) error {
	if err := r.l.o.Runtime.RemoveSandbox(ctx, a.ID, 0); err != nil {
		return err
	}
	f := pod.Facts{GoneSandboxes: []pod.Gone{{ID: a.ID, Cause: a.Cause, Detail: a.Detail}}}
	for _, c := range r.snap.Observed.Containers {
		if c.SandboxID == a.ID && c.State != pod.RunGone {
			f.GoneContainers = append(f.GoneContainers, pod.Gone{ID: c.ID, Cause: a.Cause, Detail: a.Detail})
		}
	}
	r.observed(f)
	return nil
}

func (r *run) createContainer(ctx context.Context, a lifecycle.Action) error {
	dc, c := r.desiredContainer(a.Container)
	r.mu.Lock()
	m := made{attempt: a.Attempt, sandboxID: cmp.Or(a.ID, r.sandboxID), imageID: r.images[a.Container], volumes: r.volumes}
	r.mu.Unlock()
	spec, err := containerSpec(r.l.o.Node, r.snap.Desired, dc, c, m)
	if err != nil {
		return err
	}
	made, err := r.l.o.Runtime.CreateContainer(ctx, spec)
	if errors.Is(err, pod.NotFound) {
		if _, gone := r.l.o.Runtime.InspectSandbox(ctx, spec.SandboxID); gone != nil {
			return r.lost(gone, pod.Facts{GoneSandboxes: []pod.Gone{{ID: spec.SandboxID}}})
		}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.created[a.Container] = made.ID
	r.mu.Unlock()
	r.observed(pod.Facts{Containers: []pod.Container{made}})
	r.event(normal(a.Container, "Created", "Container created: "+a.Container))
	return nil
}

// startContainer makes a process that can't be started an attempt that ended,
// as containerd does, so that the restart policy applies to it.
func (r *run) startContainer(ctx context.Context, a lifecycle.Action) error {
	r.mu.Lock()
	id := cmp.Or(a.ID, r.created[a.Container])
	r.mu.Unlock()
	c, err := r.l.o.Runtime.StartContainer(ctx, id)
	switch {
	case errors.Is(err, pod.Invalid) && (a.ID != "" || r.sandboxEnded(ctx, c.SandboxID)):
		// An earlier start may have been cut off by the runtime's death, which
		// then refuses every other; or the sandbox has ended under it. The attempt
		// is made anew before its process is blamed.
		if err := r.l.o.Runtime.RemoveContainer(ctx, id); err != nil {
			return err
		}
		r.observed(pod.Facts{GoneContainers: []pod.Gone{{ID: id, Cause: pod.CauseRuntime, Detail: "it could not be started"}}})
		return nil
	case errors.Is(err, pod.Invalid) && c.ID != "":
		now := r.l.o.Now().UTC().Truncate(time.Microsecond)
		c.State, c.ExitCode, c.Error, c.FinishedAt = pod.RunExited, startErrorCode, err.Error(), now
		r.observed(pod.Facts{Containers: []pod.Container{c}})
		r.event(warning(a.Container, "Failed", "Error: "+err.Error()))
		return nil
	case err != nil:
		return r.lost(err, pod.Facts{GoneContainers: []pod.Gone{{ID: id}}})
	}
	r.observed(pod.Facts{Containers: []pod.Container{c}})
	if c.State == pod.RunCreated {
		return broken(a.Op, c.Name, c.State)
	}
	r.event(normal(a.Container, "Started", "Container started: "+a.Container))
	return nil
}

// sandboxEnded looks whether the sandbox has ended.
func (r *run) sandboxEnded(ctx context.Context, id string) bool {
	b, err := r.l.o.Runtime.InspectSandbox(ctx, id)
	if err != nil || b.State.Live() {
		return false
	}
	r.observed(pod.Facts{Sandboxes: []pod.Sandbox{b}})
	return true
}

// stopContainer returns the container as it ended, nothing if there is none. It
// takes no slot: waiting for a process to end costs the runtime nothing, and a
// long grace must not hold up other pods.
func (r *run) stopContainer(ctx context.Context, a lifecycle.Action) (pod.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Grace+r.l.o.CallTimeout)
	defer cancel()
	c, err := r.l.o.Runtime.StopContainer(ctx, a.ID, a.Grace)
	switch {
	case errors.Is(err, pod.NotFound):
		r.observed(pod.Facts{GoneContainers: []pod.Gone{{ID: a.ID}}})
		return pod.Container{}, nil
	case err != nil:
		return pod.Container{}, err
	}
	r.observed(pod.Facts{Containers: []pod.Container{c}})
	if c.State.Live() {
		return c, broken(a.Op, c.Name, c.State)
	}
	return c, nil
}

// stopUnstarted ends a container that is not known to have been started, before
// it is removed. One that was is an attempt like any other: its number can't be
// used again.
func (r *run) stopUnstarted(ctx context.Context, a lifecycle.Action) error {
	c, err := r.stopContainer(ctx, a)
	if err == nil && !c.StartedAt.IsZero() {
		return errSurprised
	}
	return err
}

func (r *run) removeContainer(ctx context.Context, a lifecycle.Action) error {
	if err := r.l.o.Runtime.RemoveContainer(ctx, a.ID); err != nil {
		return err
	}
	r.observed(pod.Facts{GoneContainers: []pod.Gone{{ID: a.ID, Cause: a.Cause, Detail: a.Detail}}})
	if !a.MayRun {
		return nil
	}
	// A start that was carried out late may have been seen meanwhile.
	r.write(ctx)
	now, err := r.l.o.Store.Load(ctx, r.snap.Desired.UID)
	if err == nil && slices.ContainsFunc(now.Observed.Containers, func(c pod.Container) bool { return c.ID == a.ID && !c.StartedAt.IsZero() }) {
		return errSurprised
	}
	return nil
}
