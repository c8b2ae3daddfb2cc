package runtimetest

import (
	"context"
	"time"

	"podstead.io/podstead/internal/pod"
)

// serviceState is what the API service is doing. Containers run on whatever it is.
type serviceState int

const (
	serviceUp serviceState = iota
	serviceDown
	serviceHung
)

type service struct {
	state   serviceState
	changed chan struct{} // closed at the next change
}

// StopService ends the API service: calls in progress and new ones fail, event
// streams break, containers go on.
func (f *Fake) StopService() { f.setService(serviceDown) }

// HangService stops it where it is: nothing answers and nothing fails.
func (f *Fake) HangService() { f.setService(serviceHung) }

// StartService has it answer again after StopService or HangService.
func (f *Fake) StartService() { f.setService(serviceUp) }

func (f *Fake) setService(s serviceState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.service.state = s
	close(f.service.changed)
	f.service.changed = make(chan struct{})
	if s == serviceDown {
		f.breakStreams()
	}
	f.ring()
}

func (f *Fake) serviceIs() service {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.service
}

// reachable waits out a hung service and fails when it is down.
func (f *Fake) reachable(ctx context.Context, k *call) error {
	for {
		if ctx.Err() != nil {
			return k.gaveUp(ctx)
		}
		s := f.serviceIs()
		switch s.state {
		case serviceUp:
			return nil
		case serviceDown:
			return refuse(pod.Unavailable, k.Op, k.Object, "connection refused")
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
		}
	}
}

// wait waits for the channel, or for the time to pass, unless the context or the
// service ends first. A hung service is noticed by whoever waits for the answer.
func (f *Fake) wait(ctx context.Context, k *call, until <-chan struct{}, d time.Duration) error {
	if until == nil && d <= 0 {
		return nil
	}
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	for {
		s := f.serviceIs()
		if s.state == serviceDown {
			return refuse(pod.Unavailable, k.Op, k.Object, "connection reset")
		}
		select {
		case <-until:
			return nil
		case <-over:
			return nil
		case <-ctx.Done():
			return k.gaveUp(ctx)
		case <-s.changed:
		}
	}
}
