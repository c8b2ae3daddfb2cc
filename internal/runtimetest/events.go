package runtimetest

import (
	"context"
	"time"

	"podstead.io/podstead/internal/pod"
)

// eventLog is what happened, and who follows it.
type eventLog struct {
	all       []pod.RuntimeEvent
	followers map[*follower]struct{}
	muted     bool
}

type follower struct {
	queue  []pod.RuntimeEvent
	bell   chan struct{}
	broken bool
}

// Mute loses the events of everything that happens until it is called again.
func (f *Fake) Mute(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stream.muted = on
}

// BreakStreams ends every event stream as a lost connection does.
func (f *Fake) BreakStreams() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breakStreams()
}

func (f *Fake) breakStreams() {
	for s := range f.stream.followers {
		s.broken = true
	}
	f.ring()
}

func (f *Fake) ring() {
	for s := range f.stream.followers {
		select {
		case s.bell <- struct{}{}:
		default:
		}
	}
}

func (f *Fake) report(e pod.RuntimeEvent) {
	if f.stream.muted {
		return
	}
	e.At = f.now()
	f.stream.all = append(f.stream.all, e)
	for s := range f.stream.followers {
		s.queue = append(s.queue, e)
	}
	f.ring()
}

// reportContainer tells of a container. An event about an infra container is
// one about its pod, but for that of its death: Podman leaves the pod out there.
func (f *Fake) reportContainer(kind pod.EventKind, c *container) {
	if c.silent || !f.mine(c.identity) {
		return
	}
	e := pod.RuntimeEvent{Kind: kind, ID: c.ID}
	if kind != pod.EventDied && c.Kind == pod.KindSandbox {
		e.SandboxID = c.SandboxID
	}
	f.report(e)
}

// Events implements the interface in internal/observe.
func (f *Fake) Events(ctx context.Context, since time.Time, ready func(), fn func(pod.RuntimeEvent)) error {
	k := f.begin(Call{Op: OpEvents})
	err := f.before(ctx, k)
	if err == nil {
		s := f.follow(since)
		ready()
		err = f.deliver(ctx, k, s, fn)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticks++
	k.ended, k.Ended, k.Err = f.ticks, time.Now(), err
	return err
}

func (f *Fake) follow(since time.Time) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &follower{bell: make(chan struct{}, 1)}
	f.stream.followers[s] = struct{}{}
	if since.IsZero() {
		return s
	}
	for _, e := range f.stream.all {
		if !e.At.Before(since) {
			s.queue = append(s.queue, e)
		}
	}
	s.bell <- struct{}{}
	return s
}

// deliver hands events over, one at a time, until the stream ends. The end of
// the context is no error.
func (f *Fake) deliver(ctx context.Context, k *call, s *follower, fn func(pod.RuntimeEvent)) error {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.stream.followers, s)
	}()
	for {
		f.mu.Lock()
		var queued []pod.RuntimeEvent
		if f.service.state != serviceHung {
			queued, s.queue = s.queue, nil
		}
		broken := s.broken
		f.mu.Unlock()
		for _, e := range queued {
			if ctx.Err() != nil {
				return nil
			}
			fn(e)
		}
		if broken {
			return refuse(pod.Unavailable, k.Op, "", "connection reset")
		}
		select {
		case <-s.bell:
		case <-ctx.Done():
			return nil
		}
	}
}
