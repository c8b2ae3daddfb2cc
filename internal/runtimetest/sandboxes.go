package runtimetest

import (
	"context"
	"fmt"
	"time"

	"podstead.io/podstead/internal/pod"
)

// CreateSandbox implements reconcile.Runtime.
func (f *Fake) CreateSandbox(ctx context.Context, spec pod.SandboxSpec) (pod.Sandbox, error) {
	about := Call{Op: OpCreateSandbox, Pod: spec.Key.Name, Object: spec.SandboxName()}
	return act(ctx, f, about, func(k *call) (pod.Sandbox, error) { return f.createSandbox(k, spec) })
}

func (f *Fake) createSandbox(k *call, spec pod.SandboxSpec) (pod.Sandbox, error) {
	name := spec.SandboxName()
	b := &sandbox{identity: spec.Identity, ports: spec.Ports, hostNet: spec.HostNetwork}
	b.Sandbox = pod.Sandbox{
		Key: spec.Key, UID: spec.UID, Name: name, Attempt: spec.Attempt, Revision: spec.Revision, Hash: spec.Hash,
		State: pod.RunCreated, CreatedAt: f.now(),
	}
	if k.lies() {
		b.ID, b.InfraID = f.id("lie"), f.id("lie")
		return b.Sandbox, nil
	}
	for _, n := range []string{name, spec.RuntimeName()} {
		switch holder, err := f.holder(k, n, spec.Identity); {
		case err != nil:
			return pod.Sandbox{}, err
		case holder != "" && n == name:
			return f.sandboxes[holder].Sandbox, nil
		}
	}
	b.ID = f.id("p")
	infra := &container{identity: spec.Identity, hostname: spec.Hostname, silent: k.fault.Silent}
	infra.Container = pod.Container{
		Key: spec.Key, UID: spec.UID, Container: spec.Identity.Container, Kind: pod.KindSandbox, ID: f.id("i"), Name: spec.RuntimeName(),
		SandboxID: b.ID, Attempt: spec.Attempt, Revision: spec.Revision, State: pod.RunCreated, CreatedAt: f.now(),
	}
	b.infra, b.InfraID = infra, infra.ID
	f.sandboxes[b.ID], f.containers[infra.ID] = b, infra
	f.names[name], f.names[infra.Name] = b.ID, infra.ID
	f.reportContainer(pod.EventCreated, infra)
	infra.silent = false
	return b.Sandbox, nil
}

// holder is the ID of what has the name already with the same identity. What
// has it with another identity of Podstead's is removed; anyone else's is a
// conflict.
func (f *Fake) holder(k *call, name string, want pod.Identity) (string, error) {
	id, taken := f.names[name]
	if !taken {
		return "", nil
	}
	var has pod.Identity
	if b := f.sandboxes[id]; b != nil {
		has = b.identity
	} else {
		has = f.containers[id].identity
	}
	switch {
	case same(has, want):
		return id, nil
	case !f.mine(has):
		return "", refuse(pod.Conflict, k.Op, name, "the name is in use by "+id)
	case f.sandboxes[id] != nil:
		f.dropSandbox(f.sandboxes[id], k.fault.Silent, EndAgent)
	default:
		f.dropContainer(f.containers[id], k.fault.Silent, EndAgent)
	}
	return "", nil
}

// StartSandbox implements reconcile.Runtime.
func (f *Fake) StartSandbox(ctx context.Context, id string) error {
	_, err := act(ctx, f, Call{Op: OpStartSandbox, Object: id}, func(k *call) (struct{}, error) {
		b, err := f.mySandbox(k.Op, id)
		switch {
		case err != nil:
			return struct{}{}, err
		case k.lies() || b.State.Live():
			return struct{}{}, nil
		}
		if port, taken := f.portTaken(b); taken {
			return struct{}{}, refuse(pod.Conflict, k.Op, id, fmt.Sprintf("host port %d is in use", port))
		}
		f.run(b.infra, Script{}, k.fault)
		b.State, b.StartedAt, b.ExitedAt = pod.RunRunning, b.infra.StartedAt, time.Time{}
		if !b.hostNet {
			f.serial++
			b.IPs = []string{f.address()}
		}
		return struct{}{}, nil
	})
	return err
}

func (f *Fake) portTaken(b *sandbox) (int32, bool) {
	for _, other := range f.sandboxes {
		if other == b || !other.State.Live() {
			continue
		}
		for _, p := range b.ports {
			for _, q := range other.ports {
				if p.HostPort == q.HostPort && p.Protocol == q.Protocol && (p.HostIP == q.HostIP || p.HostIP == "" || q.HostIP == "") {
					return p.HostPort, true
				}
			}
		}
	}
	return 0, false
}

// RemoveSandbox implements reconcile.Runtime.
func (f *Fake) RemoveSandbox(ctx context.Context, id string, grace time.Duration) error {
	_, err := act(ctx, f, Call{Op: OpRemoveSandbox, Object: id}, func(k *call) (struct{}, error) {
		b, err := f.mySandbox(k.Op, id)
		if err != nil || k.lies() {
			return struct{}{}, nil
		}
		if grace > 0 {
			for _, c := range f.inside(b) {
				if c.State.Live() {
					f.signal(c, grace, EndAgent)
					k.until = c.ended
				}
			}
			if k.until != nil {
				return struct{}{}, nil
			}
		}
		f.dropSandbox(b, k.fault.Silent, EndAgent)
		return struct{}{}, nil
	})
	return err
}

// inside are the containers of a sandbox, the infra container aside, oldest
// first.
func (f *Fake) inside(b *sandbox) []*container {
	var out []*container
	for _, c := range f.sorted() {
		if c.SandboxID == b.ID && c != b.infra {
			out = append(out, c)
		}
	}
	return out
}

func (f *Fake) dropSandbox(b *sandbox, silent bool, by End) {
	for _, c := range append(f.inside(b), b.infra) {
		f.dropContainer(c, silent, by)
	}
	delete(f.sandboxes, b.ID)
	delete(f.names, b.Name)
}
