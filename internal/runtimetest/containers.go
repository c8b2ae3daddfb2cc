package runtimetest

import (
	"context"
	"time"

	"podstead.io/podstead/internal/pod"
)

// CreateContainer implements reconcile.Runtime.
func (f *Fake) CreateContainer(ctx context.Context, spec pod.ContainerSpec) (pod.Container, error) {
	about := Call{Op: OpCreateContainer, Pod: spec.Key.Name, Container: spec.Identity.Container, Object: spec.RuntimeName()}
	return act(ctx, f, about, func(k *call) (pod.Container, error) { return f.createContainer(k, spec) })
}

func (f *Fake) createContainer(k *call, spec pod.ContainerSpec) (pod.Container, error) {
	name := spec.RuntimeName()
	if full, err := pod.NormalizeImage(spec.Image); err != nil || full != spec.Image {
		return pod.Container{}, refuse(pod.Invalid, k.Op, name, "image name "+spec.Image+" is not normalised")
	}
	if _, err := f.mySandbox(k.Op, spec.SandboxID); err != nil {
		return pod.Container{}, err
	}
	c := &container{identity: spec.Identity, args: spec.Args}
	c.Container = pod.Container{
		Key: spec.Key, UID: spec.UID, Container: spec.Identity.Container, Kind: spec.Kind, Name: name, SandboxID: spec.SandboxID,
		Attempt: spec.Attempt, Revision: spec.Revision, State: pod.RunCreated, Image: spec.Image, ImageID: spec.ImageID,
		LogPath: "/containers/" + name + ".log", CreatedAt: f.now(),
	}
	if k.lies() {
		c.ID = f.id("lie")
		return c.Container, nil
	}
	holder, err := f.holder(k, name, spec.Identity)
	switch {
	case err != nil:
		return pod.Container{}, err
	case holder != "":
		return f.containers[holder].Container, nil
	case !f.images.has(spec.ImageID):
		return pod.Container{}, refuse(pod.NotFound, k.Op, name, "no such image "+spec.ImageID)
	}
	c.ID = f.id("c")
	c.script = f.nextScript(spec.Key.Name, spec.Identity.Container)
	f.containers[c.ID], f.names[name] = c, c.ID
	c.silent = k.fault.Silent
	f.reportContainer(pod.EventCreated, c)
	c.silent = false
	return c.Container, nil
}

// StartContainer implements reconcile.Runtime.
func (f *Fake) StartContainer(ctx context.Context, id string) (pod.Container, error) {
	return act(ctx, f, Call{Op: OpStartContainer, Object: id}, func(k *call) (pod.Container, error) {
		c, err := f.myContainer(k.Op, id)
		switch {
		case err != nil:
			return pod.Container{}, err
		case k.lies() || c.State.Live() || c.State == pod.RunExited:
			return c.Container, nil
		case !f.sandboxes[c.SandboxID].State.Live():
			return pod.Container{}, refuse(pod.Conflict, k.Op, id, "the infra container does not run")
		case k.fault.Deserted:
			infra := f.sandboxes[c.SandboxID].infra
			infra.silent = true
			f.finish(infra, killed, EndExit)
			return c.Container, refuse(pod.Invalid, k.Op, c.Name, "the sandbox's namespaces are gone")
		case k.fault.CutOff:
			c.script.Broken = "a container of that ID exists"
			return pod.Container{}, refuse(pod.Unavailable, k.Op, id, "the runtime died")
		case c.script.Broken != "":
			return c.Container, refuse(pod.Invalid, k.Op, c.Name, c.script.Broken)
		}
		f.checkAlone(c)
		f.run(c, c.script, k.fault)
		return c.Container, nil
	})
}

// StopContainer implements reconcile.Runtime. As with Podman, who gives up
// waiting does not call the stop off.
func (f *Fake) StopContainer(ctx context.Context, id string, grace time.Duration) (pod.Container, error) {
	return act(ctx, f, Call{Op: OpStopContainer, Object: id}, func(k *call) (pod.Container, error) {
		c, err := f.myContainer(k.Op, id)
		if err != nil {
			return pod.Container{}, err
		}
		if c.State.Live() && !k.lies() {
			c.silent = k.fault.Silent
			f.signal(c, grace, EndAgent)
			if c.State.Live() {
				k.until = c.ended
			}
		}
		return c.Container, nil
	})
}

// RemoveContainer implements reconcile.Runtime.
func (f *Fake) RemoveContainer(ctx context.Context, id string) error {
	_, err := act(ctx, f, Call{Op: OpRemoveContainer, Object: id}, func(k *call) (struct{}, error) {
		c, err := f.myContainer(k.Op, id)
		switch {
		case err != nil || k.lies():
			return struct{}{}, nil
		case c.Kind == pod.KindSandbox:
			return struct{}{}, refuse(pod.Invalid, k.Op, id, "it is an infra container: remove the pod")
		}
		f.dropContainer(c, k.fault.Silent, EndAgent)
		return struct{}{}, nil
	})
	return err
}

func (f *Fake) dropContainer(c *container, silent bool, by End) {
	c.silent = silent
	if c.State.Live() {
		f.finish(c, killed, by)
	}
	delete(f.containers, c.ID)
	delete(f.names, c.Name)
	c.silent = silent // the end of the process took it back
	f.reportContainer(pod.EventRemoved, c)
}
