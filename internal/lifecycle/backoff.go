package lifecycle

import (
	"time"

	"podstead.io/podstead/internal/pod"
)

// Kubelet's figures for containers and images: 10 s doubling to 5 min, and a
// container that was well for twice the maximum starts over
// (k8s.io/kubernetes/pkg/kubelet: backOffPeriod, MaxContainerBackOff).
const (
	BackoffBase    = 10 * time.Second
	BackoffMax     = 5 * time.Minute
	BackoffHealthy = 10 * time.Minute
)

// BackoffDelay is how long to wait after so many failures in a row. The first
// restart of a crashed container is immediate, as kubelet's is.
func BackoffDelay(kind pod.BackoffKind, failures int) time.Duration {
	if kind == pod.BackoffCrash {
		failures--
	}
	if failures <= 0 {
		return 0
	}
	d := BackoffBase
	for range failures - 1 {
		d *= 2
		if d >= BackoffMax {
			return BackoffMax
		}
	}
	return d
}

// Failed is b after one more failure at the given time.
func Failed(b pod.Backoff, at time.Time) pod.Backoff {
	b.Failures++
	b.LastAt = at
	b.Until = at.Add(BackoffDelay(b.Kind, b.Failures))
	return b
}

// Left is how long a back-off lasts still. It never lasts longer than its delay:
// where it seems to, the clock was set back since, and it is over.
func Left(b pod.Backoff, now time.Time) time.Duration {
	left := b.Until.Sub(now)
	if left > BackoffDelay(b.Kind, b.Failures) {
		return 0
	}
	return max(left, 0)
}

// FindBackoff is the entry for a container and kind, zero but for these when
// there is none.
func FindBackoff(all []pod.Backoff, container string, kind pod.BackoffKind) pod.Backoff {
	for _, b := range all {
		if b.Container == container && b.Kind == kind {
			return b
		}
	}
	return pod.Backoff{Container: container, Kind: kind}
}

// wasWell reports whether the container had run for long enough by then to start
// over.
func wasWell(c pod.Container, at time.Time) bool {
	return !c.StartedAt.IsZero() && at.Sub(c.StartedAt) >= BackoffHealthy
}

// crashed accounts for the end of an attempt: the new entry, and whether it is
// different. Ends that the container did not bring about itself cost nothing.
func crashed(b pod.Backoff, c pod.Container, now time.Time) (pod.Backoff, bool) {
	switch c.EndCause {
	case pod.CauseReboot, pod.CauseSource, pod.CauseAgent, pod.CauseEviction, pod.CauseUser:
		return b, false
	}
	if wasWell(c, c.FinishedAt) {
		b.Failures = 0
	}
	b.Reason = "CrashLoopBackOff"
	b.Message = c.Error
	if c.FinishedAt.IsZero() || c.FinishedAt.After(now) { // it vanished, or the clock was set back since
		return Failed(b, now), true
	}
	return Failed(b, c.FinishedAt), true
}
