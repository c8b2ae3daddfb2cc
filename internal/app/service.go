package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// serviceTiming is how patient the agent is with its own Podman service.
type serviceTiming struct {
	// start is how long it may take to answer first; poll how often that is
	// tried. Podman says nothing when it is ready.
	start, poll time.Duration
	// Once it answers it is pinged every so often, each ping allowed its limit,
	// and taken to hang when none was answered for hung.
	ping, pingLimit, hung time.Duration
	// stop is how long it may take to end after SIGTERM.
	stop time.Duration
	// Back-off between starts doubles from the first value to the second, and
	// begins anew after it has run for steady.
	backoff, maxBackoff, steady time.Duration
}

var defaultServiceTiming = serviceTiming{
	start: time.Minute, poll: 20 * time.Millisecond,
	ping: 20 * time.Second, pingLimit: 10 * time.Second, hung: time.Minute,
	stop:    time.Second,
	backoff: time.Second, maxBackoff: 30 * time.Second, steady: time.Minute,
}

// podmanService is a `podman system service` of the agent's own, started again
// whenever it ends and killed when it hangs. Containers don't depend on it:
// their conmon processes have detached themselves.
type podmanService struct {
	socket string
	timing serviceTiming
	log    *slog.Logger
	// answered is closed when the service answers for the first time.
	answered chan struct{}
}

func newPodmanService(runtimeDir string, timing serviceTiming, log *slog.Logger) *podmanService {
	return &podmanService{
		socket:   filepath.Join(runtimeDir, "podman.sock"),
		timing:   timing,
		log:      log,
		answered: make(chan struct{}),
	}
}

// url is where the service listens.
func (s *podmanService) url() string { return "unix://" + s.socket }

// ready waits until the service answers for the first time.
func (s *podmanService) ready(ctx context.Context) error {
	select {
	case <-s.answered:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the agent's own Podman service: %w", context.Cause(ctx))
	}
}

// run keeps a service running until the context ends, and returns when it is
// gone, which takes a little more than timing.stop at most.
func (s *podmanService) run(ctx context.Context) {
	s.log.Info("no Podman service answers: the agent runs its own", "url", s.url())
	delay := s.timing.backoff
	for {
		began := time.Now()
		err := s.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= s.timing.steady {
			delay = s.timing.backoff
		}
		s.log.Error("the agent's own Podman service ended and is started again", "error", err, "in", delay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		delay = min(2*delay, s.timing.maxBackoff)
	}
}

// runOnce runs the service until it ends, hangs or the context ends.
func (s *podmanService) runOnce(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.socket), 0o755); err != nil {
		return fmt.Errorf("make a place for the Podman service's socket: %w", err)
	}
	if err := clearSocket(ctx, s.socket, s.timing.stop); err != nil {
		return err
	}
	process, err := startService(s.url(), s.log)
	if err != nil {
		return err
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var found error
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		found = s.watch(watching)
	}()
	select {
	case <-process.ended:
		stopWatching()
		<-watched
		return process.why
	case <-watched:
		grace := s.timing.stop
		if ctx.Err() == nil {
			grace = 0 // it hangs
		}
		process.stop(grace)
		return found
	}
}

// watch returns when the service does not answer any more, or the context ends.
func (s *podmanService) watch(ctx context.Context) error {
	began, alive := time.Now(), false
	heard := began
	for {
		err := answersWithin(ctx, s.url(), s.timing.pingLimit)
		wait := s.timing.ping
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			heard = time.Now()
			if !alive {
				alive = true
				s.greet(time.Since(began))
			}
		case !alive && time.Since(began) > s.timing.start:
			return fmt.Errorf("it did not answer within %s: %w", s.timing.start, err)
		case !alive:
			wait = s.timing.poll
		case time.Since(heard) > s.timing.hung:
			return fmt.Errorf("it hung, with no answer for %s: %w", time.Since(heard).Round(time.Second), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (s *podmanService) greet(took time.Duration) {
	s.log.Info("the agent's own Podman service answers", "url", s.url(), "after", took.Round(time.Millisecond))
	select {
	case <-s.answered:
	default:
		close(s.answered)
	}
}
