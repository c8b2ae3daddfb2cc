package image

import (
	"context"
	"errors"
	"sync"
	"time"

	"podstead.io/podstead/internal/pod"
)

// linger is how long a fetch goes on when nobody waits for it any more. A caller
// that plans again, because its pod was edited meanwhile, asks again at once: a
// slow download must not begin anew each time.
const linger = 30 * time.Second

// errEnded is why a fetch was cancelled.
var errEnded = errors.New("the fetch was ended: nobody waits for it or the agent stops")

// fetches shares fetches among callers, by image.
type fetches struct {
	mu      sync.Mutex
	byImage map[string]*fetch
	closed  bool
	running sync.WaitGroup
}

// fetch is one running fetch. Its mutable fields are guarded by fetches.mu;
// result and err are settled when done is closed.
type fetch struct {
	cancel  context.CancelCauseFunc
	callers int
	idle    *time.Timer // nil while somebody waits
	done    chan struct{}
	result  pod.ImageResult
	err     error
}

// join waits for the image's fetch, beginning one with do if none runs. A caller
// whose context ends leaves; the others are not disturbed.
func (f *fetches) join(ctx context.Context, image string, do func(context.Context) (pod.ImageResult, error)) (pod.ImageResult, error) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return pod.ImageResult{}, pullError(image, errEnded)
	}
	shared, ok := f.byImage[image]
	if !ok {
		shared = f.begin(ctx, image, do)
	}
	shared.callers++
	if shared.idle != nil {
		shared.idle.Stop()
		shared.idle = nil
	}
	f.mu.Unlock()

	select {
	case <-shared.done:
		return shared.result, shared.err
	case <-ctx.Done():
		f.leave(image, shared)
		return pod.ImageResult{}, pullError(image, context.Cause(ctx))
	}
}

// begin starts a fetch that outlives the caller's context but not fetchLimit.
// f.mu is held.
func (f *fetches) begin(ctx context.Context, image string, do func(context.Context) (pod.ImageResult, error)) *fetch {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
	ctx, cancel := context.WithCancelCause(ctx)
	began := &fetch{cancel: cancel, done: make(chan struct{})}
	f.byImage[image] = began
	f.running.Go(func() {
		defer stop()
		began.result, began.err = do(ctx)
		f.mu.Lock()
		f.forget(image, began)
		f.mu.Unlock()
		close(began.done)
		cancel(nil)
	})
	return began
}

// leave takes a caller off a fetch.
func (f *fetches) leave(image string, left *fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left.callers--
	if left.callers > 0 || f.byImage[image] != left {
		return
	}
	left.idle = time.AfterFunc(linger, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if left.callers == 0 {
			f.forget(image, left)
			left.cancel(errEnded)
		}
	})
}

// forget makes the next caller begin a fetch of its own. f.mu is held.
func (f *fetches) forget(image string, ended *fetch) {
	if ended.idle != nil {
		ended.idle.Stop()
		ended.idle = nil
	}
	if f.byImage[image] == ended {
		delete(f.byImage, image)
	}
}

// close ends every fetch and waits for them.
func (f *fetches) close() {
	f.mu.Lock()
	f.closed = true
	for image, running := range f.byImage {
		running.cancel(errEnded)
		f.forget(image, running)
	}
	f.mu.Unlock()
	f.running.Wait()
}
