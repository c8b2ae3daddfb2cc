package runtimetest

import (
	"context"
	"time"

	"podstead.io/podstead/internal/pod"
)

// Fault is what goes wrong with some calls. Which ones: those of the kind, pod,
// container and image given, where empty means any; After of these go well
// first, then Times go wrong, all if it is 0.
type Fault struct {
	Op        Op
	Pod       string // the pod's name
	Container string // the container's name in the pod
	Image     string
	After     int
	Times     int

	// Delay is how much longer the call takes.
	Delay time.Duration
	// Hang: no answer until the call's context ends.
	Hang bool
	// Class is what it fails with.
	Class pod.Class
	// Applied: it is carried out first; what goes wrong is the answer.
	Applied bool
	// Lie: it reports success and changes nothing.
	Lie bool
	// CutOff: the runtime dies while it starts a container, and knows of it
	// afterwards only that it can't be started.
	CutOff bool
	// Deserted: the sandbox ends just before a container is started in it, and no
	// event has told of that yet.
	Deserted bool
	// Silent: no event reports what it does.
	Silent bool
	// DieAfter is when the process that it started is killed; 0: not.
	DieAfter time.Duration
}

// fault is a Fault with the calls that it has matched.
type fault struct {
	Fault
	seen int
}

func (t Fault) matches(c Call) bool {
	return (t.Op == "" || t.Op == c.Op) && (t.Pod == "" || t.Pod == c.Pod) &&
		(t.Container == "" || t.Container == c.Container) &&
		(t.Image == "" || c.Op == OpEnsureImage && t.Image == c.Object)
}

// Inject adds faults to the plan. Of several that meet in one call, the first
// added is taken.
func (f *Fake) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range faults {
		f.faults = append(f.faults, &fault{Fault: t})
	}
}

// ClearFaults ends the plan. A call that hangs goes on doing so.
func (f *Fake) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// nextFault counts the call against every fault and returns the one it meets.
func (f *Fake) nextFault(c Call) (met Fault) {
	found := false
	for _, t := range f.faults {
		if !t.matches(c) {
			continue
		}
		t.seen++
		if active := t.seen > t.After && (t.Times == 0 || t.seen <= t.After+t.Times); active && !found {
			met, found = t.Fault, true
		}
	}
	return met
}

// before is what happens to a call ahead of its effect.
func (f *Fake) before(ctx context.Context, k *call) error {
	if err := f.reachable(ctx, k); err != nil {
		return err
	}
	if err := f.wait(ctx, k, nil, f.latency[k.Op]); err != nil {
		return err
	}
	if k.fault.Applied {
		return nil
	}
	return f.fail(ctx, k)
}

// after is what happens to it once it had its effect.
func (f *Fake) after(ctx context.Context, k *call) error {
	if k.fault.Applied {
		if err := f.fail(ctx, k); err != nil {
			return err
		}
	}
	return f.reachable(ctx, k)
}

func (f *Fake) fail(ctx context.Context, k *call) error {
	if err := f.wait(ctx, k, nil, k.fault.Delay); err != nil {
		return err
	}
	if k.fault.Hang {
		<-ctx.Done()
		return k.gaveUp(ctx)
	}
	if k.fault.Class != "" {
		return refuse(k.fault.Class, k.Op, k.Object, "as the fault plan has it")
	}
	return nil
}

// gaveUp is the error of a call whose context ended.
func (k *call) gaveUp(ctx context.Context) error {
	return &pod.Error{Class: pod.Unavailable, Op: string(k.Op), Object: k.Object, Err: context.Cause(ctx)}
}
