package runtimetest

import (
	"context"
	"slices"
	"time"

	"podstead.io/podstead/internal/pod"
)

// Op names a kind of call.
type Op string

// The calls that a Fake takes.
const (
	OpCreateSandbox    Op = "create sandbox"
	OpStartSandbox     Op = "start sandbox"
	OpRemoveSandbox    Op = "remove sandbox"
	OpCreateContainer  Op = "create container"
	OpStartContainer   Op = "start container"
	OpStopContainer    Op = "stop container"
	OpRemoveContainer  Op = "remove container"
	OpEnsureImage      Op = "ensure image"
	OpEnsureVolumes    Op = "ensure volumes"
	OpRemoveVolumes    Op = "remove volumes"
	OpList             Op = "list"
	OpListImages       Op = "list images"
	OpInspectSandbox   Op = "inspect sandbox"
	OpInspectContainer Op = "inspect container"
	OpEvents           Op = "events"
)

// Call is one call that was made.
type Call struct {
	Op Op
	// Pod is the pod's name, Container the container's in the pod, as far as the
	// call is about one that is known.
	Pod       string
	Container string
	// Object is the ID, name or UID that was given.
	Object string
	Begun  time.Time
	Ended  time.Time // zero: not yet
	Err    error
}

// call is a call in progress.
type call struct {
	Call
	begun, ended int // ticks

	fault Fault
	// round counts how often the call came back from waiting.
	round int
	// until and sleep are what the call has to wait for before it goes on.
	until <-chan struct{}
	sleep time.Duration
}

func (k *call) lies() bool { return k.fault.Lie }

// act carries out one call. fn works under the lock; when it leaves something to
// wait for in the call, it is called again after that.
func act[T any](ctx context.Context, f *Fake, about Call, fn func(k *call) (T, error)) (T, error) {
	var zero T
	k := f.begin(about)
	out, err := perform(ctx, f, k, fn)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticks++
	k.ended, k.Ended, k.Err = f.ticks, time.Now(), err
	if err != nil && !k.partial(err) {
		return zero, err
	}
	return out, err
}

// partial reports whether the result comes along with the error: a container
// whose process could not be started is returned as it is.
func (k *call) partial(err error) bool {
	return k.Op == OpStartContainer && k.fault.Class == "" && pod.ClassOf(err) == pod.Invalid
}

func perform[T any](ctx context.Context, f *Fake, k *call, fn func(k *call) (T, error)) (T, error) {
	var zero T
	if err := f.before(ctx, k); err != nil {
		return zero, err
	}
	var out T
	for {
		if err := f.reachable(ctx, k); err != nil {
			return zero, err
		}
		f.mu.Lock()
		k.until, k.sleep = nil, 0
		var err error
		out, err = fn(k)
		f.mu.Unlock()
		if err != nil {
			return out, err
		}
		if k.until == nil && k.sleep == 0 {
			break
		}
		if err := f.wait(ctx, k, k.until, k.sleep); err != nil {
			return zero, err
		}
		k.round++
	}
	return out, f.after(ctx, k)
}

func (f *Fake) begin(about Call) *call {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticks++
	k := &call{Call: about, begun: f.ticks}
	k.Begun = time.Now()
	if c := f.containers[k.Object]; c != nil && k.Pod == "" {
		k.Pod, k.Container = c.Key.Name, c.identity.Container
	}
	if b := f.sandboxes[k.Object]; b != nil && k.Pod == "" {
		k.Pod = b.Key.Name
	}
	k.fault = f.nextFault(k.Call)
	f.log = append(f.log, k)
	return k
}

// Calls are the calls so far, in the order in which they began, of the kinds
// given or all.
func (f *Fake) Calls(ops ...Op) []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Call
	for _, k := range f.log {
		if len(ops) == 0 || slices.Contains(ops, k.Op) {
			out = append(out, k.Call)
		}
	}
	return out
}

// ForgetCalls empties the log.
func (f *Fake) ForgetCalls() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = nil
}

// Parallel is how many calls of the kinds given were in progress at a time.
func (f *Fake) Parallel(ops ...Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	change := map[int]int{}
	for _, k := range f.log {
		if !slices.Contains(ops, k.Op) {
			continue
		}
		change[k.begun]++
		if k.ended > 0 {
			change[k.ended]--
		}
	}
	open, most := 0, 0
	for tick := range f.ticks + 1 {
		open += change[tick]
		most = max(most, open)
	}
	return most
}
